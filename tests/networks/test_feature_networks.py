"""Networks that give features alone: what they give, who refuses them, and timm's of any name."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farout import ImageSet, Network, Panel, PostHoc, detectors, networks
from farout.detectors import DN2, KNN
from farout.networks import timm_bridge
from farout.registry import UnknownName

needs_timm = pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason='needs pip install "farout[timm]"')

CLIP = "timm:vit_xsmall_patch16_clip_224.tinyclip_yfcc15m"
"""The smallest image tower that timm has."""


class Tower(nn.Module):
    """Features [B, 6] of images, from a linear layer that is no classifier."""

    block_names = ("stem",)

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.projection = nn.Conv2d(3, 4, 3), nn.Linear(4, 6)

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.projection(self.stem(images).relu().mean((2, 3)))
        return features


def tower(seed: int = 0) -> Network:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Network(Tower(), mean=0.5, std=0.25, side=8, head=False)


def images(total: int, seed: int = 0, side: int = 8) -> Tensor:
    return torch.rand(total, 3, side, side, generator=torch.Generator().manual_seed(seed))


def a_set(total: int, seed: int = 0) -> ImageSet:
    return ImageSet.from_arrays(images(total, seed).numpy())


def test_the_features_are_the_modules_output() -> None:
    network = tower()
    with torch.inference_mode():
        found = network(images(5), needs=("means",))
        stem = network.module.stem((images(5) - 0.5) / 0.25)
        expected = network.module((images(5) - 0.5) / 0.25)
    torch.testing.assert_close(found.features, expected)
    torch.testing.assert_close(found.means["stem"], stem.double().mean((2, 3)), rtol=1e-5, atol=1e-6)
    assert (found.logits.shape, found.head, network.head, network.classes) == ((5, 0), None, None, 0)


def test_it_is_another_network_than_the_one_whose_output_are_logits() -> None:
    features = tower()
    logits = Network(features.module, mean=0.5, std=0.25, side=8)
    assert logits.head_name == "projection"
    assert logits.digest != features.digest
    assert Network(features, mean=0.5, std=0.25, side=8).digest == features.digest


def test_detectors_of_features_read_it() -> None:
    network = tower()
    panel = Panel(network, [DN2(), DN2(layer=1), KNN(k=3), "mds"])
    panel.fit(ImageSet.from_arrays(images(50).numpy(), np.arange(50) % 2), a_set(20, 1))
    scores = panel.score(images(7, 2))
    with torch.inference_mode():
        bank, queries = (network(rows).features.double().numpy() for rows in (images(50), images(7, 2)))
    distances = np.sqrt(((queries[:, None] - bank[None]) ** 2).sum(2))
    np.testing.assert_allclose(scores["dn2"], np.sort(distances, 1)[:, :2].mean(1), rtol=1e-5)
    assert all(np.isfinite(values).all() for values in scores.values())


LOGITS = ["msp", "mls", "ebo", "odin", "temp_scaling", "klm", "vim", "react", "gradnorm", "gram", "ensemble", "ash"]


@pytest.mark.parametrize("name", LOGITS)
def test_detectors_of_logits_refuse_it(name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} reads logits, and this network has features only.*dn2"):
        Panel(tower(), ["dn2", name])


def test_all_that_need_no_logits_read_it() -> None:
    labeled = ImageSet.from_arrays(images(60).numpy(), np.arange(60) % 2)
    read = []
    for name in detectors.names_of(PostHoc):
        detector = KNN(k=5) if name == "knn" else detectors.create(name)
        assert isinstance(detector, PostHoc)
        if not {"logits", "head"} & detector.needs:
            panel = Panel(tower(), [detector]).fit(labeled)
            assert np.isfinite(panel.score(images(5, 1))[name]).all(), name
            read.append(name)
    assert read == ["dn2", "knn", "mds", "mds_layers", "rmds"]


def test_an_ensemble_of_them_gives_the_features_side_by_side() -> None:
    members = [tower(0), tower(1)]
    ensemble = networks.Ensemble(members)
    with torch.inference_mode():
        found = ensemble(images(3))
        expected = torch.cat([member(images(3)).features for member in members], 1)
    assert torch.equal(found.features, expected)
    assert ensemble.classes == 0


def test_a_module_whose_output_are_no_features_is_said_so() -> None:
    with pytest.raises(
        RuntimeError, match=r"a module without a head must return features \[B, D\], got shape \[2, 4, 6"
    ):
        Network(nn.Conv2d(3, 4, 3), mean=0.5, std=0.5, head=False)(images(2))


def test_training_refuses_it() -> None:
    labeled = ImageSet.from_arrays(images(8).numpy(), np.arange(8) % 2)
    with pytest.raises(ValueError, match="the network has 0 classes"):
        networks.train(tower(), labeled, labeled, epochs=1)


@pytest.mark.parametrize(("name", "classes"), [("resnet20", 0), ("resnet20", 1), ("resnet18", 1), ("timm:resnet18", 1)])
def test_networks_of_ours_have_at_least_two_classes(name: str, classes: int) -> None:
    with pytest.raises(ValueError, match=rf"at least 2 classes \(or 0, of timm's networks\), got classes={classes}"):
        networks.create(name, classes, 32)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, Tensor]:
    """What timm gets instead of a download: to be filled by the test."""
    timm_bridge.load_timm("timm")
    weights: dict[str, Tensor] = {}
    monkeypatch.setattr("timm.models._builder.load_state_dict_from_hf", lambda *_args, **_options: dict(weights))
    return weights


def original(name: str, **options: Any) -> Any:
    """timm's own network with weights that are no one's."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return timm_bridge.load_timm(name).create_model(name.removeprefix("timm:"), **options).eval()


def normalized(batch: Tensor, config: Mapping[str, Any]) -> Tensor:
    large = F.interpolate(batch, (64, 64), mode="bilinear", antialias=True)
    return (large - torch.tensor(config["mean"]).view(3, 1, 1)) / torch.tensor(config["std"]).view(3, 1, 1)


@needs_timm
@pytest.mark.parametrize("name", ["resnet18", "timm:resnet18.a1_in1k"])
def test_pretrained_weights_of_other_classes_give_their_features_alone(name: str, hub: dict[str, Tensor]) -> None:
    """32-px images into a network of 64 px: resized, with the normalizer of the weights."""
    theirs = original("resnet18")
    hub.update(theirs.state_dict())
    network = networks.create(name, 10, 64, pretrained=True)
    assert network.classes == 0
    with torch.inference_mode():
        seen = normalized(images(3, side=32), theirs.pretrained_cfg)
        expected = theirs.forward_head(theirs.forward_features(seen), pre_logits=True)
        found = network(images(3, side=32), needs=("means",))
    torch.testing.assert_close(found.features, expected, rtol=1e-4, atol=1e-5)
    assert list(found.means) == ["act1", "layer1", "layer2", "layer3", "layer4"]
    with pytest.raises(ValueError, match="msp reads logits, and this network has features only"):
        Panel(network, ["msp"])


@needs_timm
def test_pretrained_weights_of_as_many_classes_keep_their_classifier(hub: dict[str, Tensor]) -> None:
    theirs = original("resnet18")
    hub.update(theirs.state_dict())
    network = networks.create("resnet18", 1000, 64, pretrained=True)
    with torch.inference_mode():
        expected = theirs(normalized(images(3, side=32), theirs.pretrained_cfg))
        torch.testing.assert_close(network(images(3, side=32)).logits, expected, rtol=1e-4, atol=1e-5)


@needs_timm
def test_an_image_tower_gives_its_embedding(hub: dict[str, Tensor]) -> None:
    theirs = original(CLIP, img_size=64)
    hub.update(theirs.state_dict())
    with torch.inference_mode():
        expected = theirs(normalized(images(3, side=32), theirs.pretrained_cfg))
        assert expected.shape == (3, 512)
        for classes in (10, 512):  # as many classes as numbers of the embedding make it no classifier
            network = networks.create(CLIP, classes, 64, pretrained=True)
            torch.testing.assert_close(network(images(3, side=32)).features, expected, rtol=1e-4, atol=1e-5)
            assert network.classes == 0


@needs_timm
@pytest.mark.parametrize(
    ("name", "options", "width"),
    [
        ("timm:resnet18", {}, 512),
        ("resnet18", {}, 512),
        ("vit_tiny", {"img_size": 64}, 192),
        (CLIP, {"img_size": 64}, 512),
    ],
)
def test_a_local_file_gives_the_features_its_classifier_would_read(
    name: str, options: dict[str, Any], width: int, tmp_path: Path
) -> None:
    theirs = original(timm_bridge.TIMM_NAMES.get(name, name), **options)
    networks.save_weights(theirs, tmp_path / "weights.safetensors")
    network = networks.create(name, 0, 64, seed=1)
    networks.load_weights(network, tmp_path / "weights.safetensors")
    with torch.inference_mode():
        seen = normalized(images(3, side=32), theirs.pretrained_cfg)
        tokens = theirs.forward_features(seen)
        expected = theirs(seen) if name == CLIP else theirs.forward_head(tokens, pre_logits=True)
        found = network(images(3, side=32)).features
    assert found.shape == (3, width)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@needs_timm
def test_a_file_of_other_classes_says_how_to_read_it(tmp_path: Path) -> None:
    networks.save_weights(original("resnet18"), tmp_path / "weights.safetensors")
    with pytest.raises(ValueError, match=r"fc\.weight \[1000, 512\] \(expected \[10, 512\]\).*classes=0"):
        networks.load_weights(networks.create("timm:resnet18", 10, 64), tmp_path / "weights.safetensors")


@needs_timm
def test_any_of_timms_can_be_trained_from_its_name() -> None:
    network = networks.create("timm:resnet18", 5, 64)
    with torch.inference_mode():
        found = network(images(2))
    assert network.head is not None
    torch.testing.assert_close(found.logits, F.linear(found.features, *network.head), rtol=1e-4, atol=1e-5)
    assert found.logits.shape == (2, 5)


@needs_timm
@pytest.mark.parametrize(
    ("name", "nearest"),
    [("timm:resnet_18", "timm:resnet18"), ("timm:resnet18.a1_in2k", "timm:resnet18.a1_in1k")],
)
@pytest.mark.parametrize("pretrained", [False, True])
def test_a_name_that_timm_has_not_is_answered_with_the_nearest(name: str, nearest: str, pretrained: bool) -> None:
    with pytest.raises(UnknownName, match=rf"has no network '{name.removeprefix('timm:')}'. Did you mean .*{nearest}"):
        networks.create(name, 10, 64, pretrained=pretrained)


@needs_timm
def test_what_timm_counts_as_classes_is_told_apart_from_embeddings() -> None:
    """Of all weights that timm lists: the towers of its image-text models are those whose outputs are no classes."""
    timm = timm_bridge.load_timm("timm")
    for name in timm.list_pretrained():
        outputs = timm.models.get_pretrained_cfg(name).num_classes
        tower = ("clip" in name or "vit_pe_core" in name) and "_ft_in" not in name and outputs > 0
        assert timm_bridge._embeds(outputs) == tower, (name, outputs)
