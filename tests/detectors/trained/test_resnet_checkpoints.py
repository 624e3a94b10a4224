"""Checkpoints of the authors of CSI, SSD and MD: files in their layout give the scores of their networks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import farout
from farout.api.importing import import_weights
from farout.core import Activations, ImageSet
from farout.detectors import MDSLayers
from farout.detectors.trained.csi import CSI
from farout.detectors.trained.ssd import SSD
from helpers.command_line import farout as command

Tensors = dict[str, Tensor]
WIDTH = 4
TRAIN, IMAGES = farout.load("toy", "train", limit=40), farout.load("toy", limit=5).batch(range(5))
DEPTHS = {"resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3), "resnet50": (3, 4, 6, 3)}


def resnet(name: str, width: int = WIDTH) -> Tensors:
    """Random tensors of a CIFAR ResNet without its last layer, by the names of the public code."""
    rng = torch.Generator().manual_seed(3)
    tensors: Tensors = {}

    def add(conv: str, norm: str, inputs: int, outputs: int, kernel: int) -> None:
        fan = inputs * kernel**2
        tensors[f"{conv}.weight"] = torch.randn(outputs, inputs, kernel, kernel, generator=rng) * (2 / fan) ** 0.5
        for key in ("weight", "bias", "running_mean", "running_var"):
            tensors[f"{norm}.{key}"] = 0.1 + torch.rand(outputs, generator=rng)

    add("conv1", "bn1", 3, width, 3)
    inputs, expansion = width, 4 if name == "resnet50" else 1
    for stage, depth in enumerate(DEPTHS[name]):
        for index in range(depth):
            block, inner = f"layer{stage + 1}.{index}", width * 2**stage
            sizes = [(inputs, inner, 1), (inner, inner, 3), (inner, 4 * inner, 1)] if expansion == 4 else [
                (inputs, inner, 3), (inner, inner, 3)]  # fmt: skip
            for number, (before, after, kernel) in enumerate(sizes, 1):
                add(f"{block}.conv{number}", f"{block}.bn{number}", before, after, kernel)
            if inputs != inner * expansion:
                add(f"{block}.shortcut.0", f"{block}.shortcut.1", inputs, inner * expansion, 1)
            inputs = inner * expansion
    return tensors


def linear(name: str, inputs: int, outputs: int) -> Tensors:
    rng = torch.Generator().manual_seed(len(name))
    weight, bias = torch.randn(outputs, inputs, generator=rng), torch.randn(outputs, generator=rng)
    return {f"{name}.weight": weight / inputs**0.5, f"{name}.bias": bias}


def maps(tensors: Tensors, x: Tensor) -> list[Tensor]:
    """Outputs of the stem and of the four stages, as the public code computes them."""

    def normed(x: Tensor, conv: str, norm: str, stride: int = 1) -> Tensor:
        weight = tensors[f"{conv}.weight"]
        x = F.conv2d(x, weight, stride=stride, padding=weight.shape[2] // 2)
        mean, var, scale, bias = (tensors[f"{norm}.{key}"] for key in ("running_mean", "running_var", "weight", "bias"))
        return F.batch_norm(x, mean, var, scale, bias)

    found = [normed(x, "conv1", "bn1").relu()]
    for stage in range(1, 5):
        x, index = found[-1], 0
        while f"layer{stage}.{index}.conv1.weight" in tensors:
            block, out = f"layer{stage}.{index}", x
            stride = 2 if stage > 1 and index == 0 else 1
            last = 3 if f"{block}.conv3.weight" in tensors else 2
            for number in range(1, last + 1):
                own = stride if number == last - 1 else 1  # of two 3×3 the first, of a bottleneck the 3×3
                out = normed(out, f"{block}.conv{number}", f"{block}.bn{number}", own)
                out = out if number == last else out.relu()
            has = f"{block}.shortcut.0.weight" in tensors
            x = (out + (normed(x, f"{block}.shortcut.0", f"{block}.shortcut.1", stride) if has else x)).relu()
            index += 1
        found.append(x)
    return found


def all_images(images: ImageSet) -> Tensor:
    return images.batch(range(len(images)))


def csi_file() -> Tensors:
    size = 8 * WIDTH
    heads = linear("simclr_layer.0", size, size) | linear("simclr_layer.2", size, 128)
    others = linear("linear", size, 10) | linear("joint_distribution_layer", size, 40)
    return resnet("resnet18") | heads | linear("shift_cls_layer", size, 4) | others


def ssd_file() -> Tensors:
    size = 32 * WIDTH
    encoder = {f"encoder.module.{key}": value for key, value in resnet("resnet50").items()}
    return encoder | linear("head.0", size, size) | linear("head.2", size, 128)


@torch.no_grad()
def test_csi_scores_as_the_authors_network(tmp_path: Path) -> None:
    tensors, out = csi_file(), tmp_path / "csi.safetensors"
    torch.save(tensors, tmp_path / "last.model")
    imported = import_weights("csi", tmp_path / "last.model", out, width=WIDTH, views=1)
    assert imported.left_out == sorted(key for key in tensors if key.startswith(("linear", "joint")))
    assert not imported.complete
    detector = farout.detectors.load(out).fit(TRAIN)
    assert isinstance(detector, CSI)

    def outputs(images: Tensor) -> tuple[Tensor, Tensor]:
        features = maps(tensors, (detector._view(images, 0) - 0.5) / 0.5)[-1].mean((2, 3))
        hidden = F.linear(features, tensors["simclr_layer.0.weight"], tensors["simclr_layer.0.bias"]).relu()
        z = F.linear(hidden, tensors["simclr_layer.2.weight"], tensors["simclr_layer.2.bias"]).unflatten(0, (4, -1))
        turns = F.linear(features, tensors["shift_cls_layer.weight"], tensors["shift_cls_layer.bias"])
        return z, turns.unflatten(0, (4, -1)).diagonal(dim1=0, dim2=2).T

    (known, turned), (z, turns) = outputs(all_images(TRAIN)), outputs(IMAGES)
    expected = torch.zeros(len(IMAGES))
    for k in range(4):
        similar = (z[k] @ F.normalize(known[k], dim=1).T).amax(1)
        expected -= similar / known[k].norm(dim=1).mean() / 4 + turns[k] / turned[k].mean() / 4
    torch.testing.assert_close(detector.score(IMAGES), expected.double(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("wrapper", ["model", "state_dict"])
@torch.no_grad()
def test_ssd_scores_as_the_authors_network(tmp_path: Path, wrapper: str) -> None:
    tensors, out = ssd_file(), tmp_path / "ssd.safetensors"
    torch.save({wrapper: tensors, "epoch": 500}, tmp_path / "last.pth")
    assert import_weights("ssd", tmp_path / "last.pth", out, width=WIDTH).left_out == []
    detector = farout.detectors.load(out).fit(TRAIN)
    assert isinstance(detector, SSD)
    encoder = {key.removeprefix("encoder.module."): value for key, value in tensors.items()}
    mean, std = torch.tensor([0.491, 0.482, 0.447]), torch.tensor([0.202, 0.199, 0.201])

    def features(images: Tensor) -> Tensor:
        x = (images - mean.view(3, 1, 1)) / std.view(3, 1, 1)
        return F.normalize(maps(encoder, x)[-1].mean((2, 3)).double(), dim=1)

    torch.testing.assert_close(detector.features(IMAGES), features(IMAGES), rtol=1e-4, atol=1e-5)
    rows = features(all_images(TRAIN))
    center, scale = rows.mean(0), rows.std(0, correction=0).clamp_min(1e-10)
    white = detector.statistics["whiteners"][0]
    expected = ((features(IMAGES) - center) / scale @ white).square().sum(1)
    torch.testing.assert_close(detector.score(IMAGES), expected, rtol=1e-2, atol=1e-3)


@torch.no_grad()
def test_md_is_mds_layers_on_the_authors_resnet34(tmp_path: Path) -> None:
    tensors = resnet("resnet34") | linear("linear", 8 * WIDTH, 10)
    out = tmp_path / "resnet34.safetensors"
    torch.save({f"module.{key}": value for key, value in tensors.items()}, tmp_path / "resnet_cifar10.pth")
    ended = command("import", "resnet34", tmp_path / "resnet_cifar10.pth", "--out", out, "--set", f"width={WIDTH}")
    assert ended.code == 0, ended.err
    assert "values to resnet34\nleft out 0 tensors of the file\nweights: " in ended.out
    mean, std = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
    network = farout.networks.create("resnet34", 10, 32, width=WIDTH, mean=mean, std=std)
    farout.networks.load_weights(network, out)

    def averages(images: Tensor) -> list[Tensor]:
        x = (images - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
        return [one.double().mean((2, 3)) for one in maps(tensors, x)]

    own = network(IMAGES, needs={"means"})
    assert list(own.means) == ["act1", "layer1", "layer2", "layer3", "layer4"]
    for ours, theirs in zip(own.means.values(), averages(IMAGES), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    logits = F.linear(averages(IMAGES)[-1].float(), tensors["linear.weight"], tensors["linear.bias"])
    torch.testing.assert_close(own.logits, logits, rtol=1e-4, atol=1e-4)

    def theirs(images: Tensor) -> Activations:
        means = dict(zip(own.means, averages(images), strict=True))
        return Activations(torch.empty(len(images), 0), torch.empty(len(images), 0), means=means)

    train = farout.load("toy", "train", limit=120)  # more images than the last block has channels
    md = MDSLayers(epsilon=0).fit(theirs(all_images(train)), torch.from_numpy(train.labels))
    panel = farout.Panel(network, [MDSLayers(epsilon=0)])
    panel.fit(train)
    (scores,) = panel.score(IMAGES).values()
    torch.testing.assert_close(torch.from_numpy(scores), md.score(theirs(IMAGES)), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("name", "file", "left", "missing"),
    [("csi", csi_file, "simclr_layer.2", "simclr_layer.2.weight"), ("ssd", ssd_file, "head", "head.0.weight")],
)
def test_files_that_do_not_fit_are_refused(
    tmp_path: Path, name: str, file: Callable[[], Tensors], left: str, missing: str
) -> None:
    path, reads = tmp_path / "theirs.pt", partial(import_weights, name, out=tmp_path / "ours.safetensors")
    torch.save(file(), path)
    with pytest.raises(ValueError, match=rf"has other shapes than the network: .*Expected {name} with .*width"):
        reads(path, width=2 * WIDTH)
    torch.save({key: value for key, value in file().items() if not key.startswith(left)}, path)
    with pytest.raises(ValueError, match=rf"has no tensor '{missing}', which the published checkpoint of {name} has"):
        reads(path, width=WIDTH)


@pytest.mark.parametrize("name", ["csi", "ssd", "resnet34"])
def test_a_pickled_module_is_refused(tmp_path: Path, name: str) -> None:
    torch.save(nn.Linear(2, 2), tmp_path / "theirs.pt")
    with pytest.raises(ValueError, match=r"cannot be read as weights .*a whole pickled module is not read"):
        import_weights(name, tmp_path / "theirs.pt", tmp_path / "ours.safetensors")


def test_a_network_of_other_classes_is_refused(tmp_path: Path) -> None:
    torch.save(resnet("resnet34") | linear("linear", 8 * WIDTH, 100), tmp_path / "theirs.pt")
    with pytest.raises(ValueError, match=r"linear\.bias \[100\] \(expected \[10\]\)"):
        import_weights("resnet34", tmp_path / "theirs.pt", tmp_path / "ours.safetensors", width=WIDTH)
    import_weights("resnet34", tmp_path / "theirs.pt", tmp_path / "ours.safetensors", width=WIDTH, classes=100)
    assert (tmp_path / "ours.safetensors").is_file()
