"""A post-processor written to OpenOOD's interface, on a network of ours."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import farout
from farout.adapters import OpenOOD
from farout.adapters.openood_net import Net
from farout.identity import describe
from helpers.openood_standins import BasePostprocessor

MEAN, STD = [0.4, 0.5, 0.6], [0.2, 0.25, 0.3]
TRAIN = farout.load("toy", "train", limit=90)
IMAGES = farout.load("toy").batch(range(20))


class NearestPostprocessor(BasePostprocessor):
    """Like their knn: keeps unit features of the training loader, once."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.K, self.setup_flag = config["K"], False

    def setup(self, net: Any, id_loader_dict: Any, ood_loader_dict: Any) -> None:
        if not self.setup_flag:
            net.eval()
            features, self.labels = [], []
            with torch.no_grad():
                for batch in id_loader_dict["train"]:
                    _, feature = net(batch["data"].cuda().float(), return_feature=True)
                    features.append(F.normalize(feature).cpu().numpy())
                    self.labels += batch["label"].cuda().tolist()
            self.bank, self.setup_flag = np.concatenate(features), True

    @torch.no_grad()
    def postprocess(self, net: Any, data: Any) -> tuple[Tensor, Tensor]:
        output, feature = net(data, return_feature=True)
        distances = np.linalg.norm(F.normalize(feature).cpu().numpy()[:, None] - self.bank[None], axis=2)
        return output.argmax(1), torch.from_numpy(-np.sort(distances, axis=1)[:, self.K - 1])


class PerturbingPostprocessor(BasePostprocessor):
    """Like their odin: the gradient of the loss in the input."""

    def postprocess(self, net: Any, data: Any) -> tuple[Tensor, Tensor]:
        data.requires_grad = True
        output = net(data)
        nn.CrossEntropyLoss()(output / 2, output.detach().argmax(1)).backward()
        gradient = torch.ge(data.grad.detach(), 0).float() * 2 - 1
        output = net(torch.add(data.detach(), gradient, alpha=-0.01)) / 2
        conf, pred = output.detach().softmax(1).max(1)
        return pred, conf


@pytest.fixture
def network() -> farout.Network:
    return farout.networks.create("resnet20", 4, 32, mean=MEAN, std=STD, seed=2)


def normalized(images: Tensor) -> Tensor:
    return (images - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


def test_confidence_becomes_a_score(network: farout.Network) -> None:
    scores = OpenOOD(BasePostprocessor({}), network).score(IMAGES)
    with torch.no_grad():
        expected = -network.module(normalized(IMAGES)).softmax(1).amax(1).double()
    assert torch.allclose(scores, expected, rtol=1e-5)


def test_one_like_knn_is_set_up_on_the_training_images(network: farout.Network) -> None:
    detector = OpenOOD(NearestPostprocessor({"K": 3}), network)
    detector.fit(TRAIN)
    panel = farout.Panel(network, [farout.detectors.KNN(k=3)]).fit(TRAIN)
    assert detector.score(IMAGES).numpy() == pytest.approx(panel.score(IMAGES)["knn"], rel=1e-4, abs=1e-6)
    assert detector.ready.labels == TRAIN.labels.tolist()  # type: ignore[union-attr]
    assert not detector.postprocessor.setup_flag


def test_fitting_again_forgets_the_first(network: farout.Network) -> None:
    first, second = OpenOOD(NearestPostprocessor({"K": 3}), network), OpenOOD(NearestPostprocessor({"K": 3}), network)
    other = farout.load("toy", "val", limit=70)
    first.fit(other)
    first.fit(TRAIN)
    second.fit(TRAIN)
    assert torch.equal(first.score(IMAGES), second.score(IMAGES))
    second.fit(other)
    assert not torch.equal(first.score(IMAGES), second.score(IMAGES))


def test_one_like_odin_gets_its_gradients_also_without_them(network: farout.Network) -> None:
    """Against a loop over single images; the loss's mean does not change the gradient's sign."""
    detector = OpenOOD(PerturbingPostprocessor({}), network)
    expected = []
    for image in normalized(IMAGES):
        x = image[None].clone().requires_grad_()
        logits = network.module(x)
        (gradient,) = torch.autograd.grad(F.cross_entropy(logits / 2, logits.argmax(1)), x)
        moved = x.detach() - 0.01 * torch.where(gradient >= 0, 1.0, -1.0)
        expected.append(-(network.module(moved) / 2).softmax(1).amax().item())
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert detector.score(IMAGES).numpy() == pytest.approx(expected, rel=1e-5)
    assert all(parameter.grad is None for parameter in network.parameters())


def test_modes_and_gradients_of_the_network_are_left_as_they_were(network: farout.Network) -> None:
    network.train()
    marked = next(network.parameters())
    marked.grad = torch.ones_like(marked)
    before = {key: value.clone() for key, value in network.state_dict().items()}
    detector = OpenOOD(PerturbingPostprocessor({}), network)
    scores = detector.score(IMAGES)
    assert network.training
    assert marked.grad.equal(torch.ones_like(marked))
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())
    network.eval()
    assert torch.equal(scores, detector.score(IMAGES))


@pytest.mark.parametrize(
    "made", [BasePostprocessor({}), NearestPostprocessor({"K": 3}), PerturbingPostprocessor({"a": [1, 2]})]
)
def test_it_passes_the_battery(made: Any, network: farout.Network) -> None:
    assert [finding for finding in farout.check(OpenOOD(made, network), TRAIN.limit(30)) if finding.problem] == []


def test_validation_images_of_their_own(network: farout.Network) -> None:
    class Watching(BasePostprocessor):
        def setup(self, net: Any, id_loader_dict: Any, ood_loader_dict: Any) -> None:
            self.sizes = {name: sum(len(b["data"]) for b in loader) for name, loader in id_loader_dict.items()}
            self.lengths = {name: len(loader) for name, loader in id_loader_dict.items()}
            self.outliers = ood_loader_dict

    detector = OpenOOD(Watching({}), network, val=farout.load("toy", "val", limit=70))
    detector.fit(TRAIN)
    assert detector.ready.sizes == {"train": 90, "val": 70, "test": 70}
    assert detector.ready.lengths == {"train": 1, "val": 1, "test": 1}
    assert not detector.ready.outliers


def test_the_net_has_what_post_processors_ask_for(network: farout.Network) -> None:
    net, x = Net(network, "Mine").eval(), normalized(IMAGES)
    with torch.no_grad():
        activations = network(IMAGES)
        logits, feature = net(x, return_feature=True)
        _, maps = net(x, return_feature_list=True)
        assert torch.allclose(net(x), activations.logits, atol=1e-5)
        assert torch.allclose(logits, activations.logits, atol=1e-5)
        assert torch.allclose(feature, activations.features, atol=1e-5)
        assert torch.equal(maps[-1].flatten(1), feature)
        assert len(maps) == len(network.block_names) + 1
        assert all(one.is_contiguous() for one in maps)  # post-processors call .view on them
        blocks = list(activations.blocks.values())
        for given, block in zip(maps[1:-1], blocks[:-1], strict=True):
            assert torch.allclose(given, block, atol=1e-4)
        assert torch.allclose(net.intermediate_forward(x, layer_index=len(blocks)), blocks[-1], atol=1e-4)
        weight, bias = net.get_fc()
        expected = feature.double().numpy() @ weight.T.astype(np.float64) + bias
        assert logits.numpy() == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert net.get_fc_layer() is net.fc is network.module.get_submodule(network.head_name)
    assert net.feature_size == feature.shape[1] == weight.shape[1]
    first = next(name for name, _ in network.module.named_children())
    assert getattr(net, first) is getattr(network.module, first)
    with pytest.raises(AttributeError, match="nothing_like_it"):
        net.nothing_like_it  # noqa: B018
    with pytest.raises(ValueError, match="Mine reads block 99 of its net, and the network has blocks 1 to"):
        net.intermediate_forward(x, 99)


def test_identity(network: farout.Network) -> None:
    def told(k: int = 3, mean: float = 0.5, train: farout.ImageSet | None = None) -> Any:
        detector = OpenOOD(NearestPostprocessor({"K": k}), farout.networks.create("lenet", 4, 32, mean=mean))
        if train is not None:
            detector.fit(train)
        return describe(detector)

    assert told() is not None
    assert told() == told()
    assert told(train=TRAIN) == told(train=TRAIN)
    different = [told(), told(k=4), told(mean=0.4), told(train=TRAIN), told(train=farout.load("toy", "val", limit=70))]
    assert all(a != b for place, a in enumerate(different) for b in different[:place])
    odd = NearestPostprocessor({"K": 3})
    odd.index = object()  # type: ignore[attr-defined]
    assert describe(OpenOOD(odd, network)) is None


def test_one_that_was_set_up_beforehand_scores_as_it_is(network: farout.Network) -> None:
    detector = OpenOOD(NearestPostprocessor({"K": 3}), network)
    with pytest.raises(farout.NotFitted, match="Nearest is not set up: call fit"):
        detector.score(IMAGES)
    detector.fit(TRAIN)
    assert torch.equal(OpenOOD(detector.ready, network).score(IMAGES), detector.score(IMAGES))


def test_in_a_stress_test(network: farout.Network) -> None:
    table = farout.stress(
        OpenOOD(BasePostprocessor({}), network), TRAIN, farout.load("noise", limit=40), protocols="clean"
    ).table()
    assert table["detector"].tolist() == ["Base"]
    assert math.isfinite(table["auroc"].item())


def test_what_is_refused(network: farout.Network) -> None:
    with pytest.raises(TypeError, match=r"expected a post-processor .* got the class NearestPostprocessor"):
        OpenOOD(NearestPostprocessor, network)
    with pytest.raises(TypeError, match=r"expected a post-processor .* got int"):
        OpenOOD(3, network)
    with pytest.raises(TypeError, match=r"expected a farout.Network, got"):
        OpenOOD(BasePostprocessor({}), network.module)  # type: ignore[arg-type]
