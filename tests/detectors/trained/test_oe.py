"""OE: what it learns, and its score."""

from __future__ import annotations

import copy
import functools

import torch
from torch import nn

from farout.detectors.trained.detector import Inputs
from farout.detectors.trained.oe import OE
from farout.networks.network import Network
from helpers.easy_sets import bright, halves


@functools.cache
def fitted(weight: float) -> OE:
    training = {"epochs": 12, "batch": 16, "augment": "none"}
    return OE(width=4, weight=weight, training=training).fit(halves(64), val=halves(16), auxiliary_outliers=bright(64))


def test_an_exposed_classifier_is_undecided_on_other_outliers_of_the_kind() -> None:
    images = bright(32, seed=3).batch(range(32))
    plain, exposed = fitted(0.0), fitted(2.0)
    torch.testing.assert_close(exposed.score(images), 1 - exposed.network(images).logits.double().softmax(1).amax(1))
    assert exposed.history[0].figures[-1] == 1
    assert exposed.score(images).mean() > 0.3
    assert max(plain.score(images).mean(), exposed.score(halves(32, seed=3).batch(range(32))).mean()) < 0.1


def test_very_confident_images_do_not_tie() -> None:
    detector = copy.deepcopy(fitted(0.0))
    with torch.no_grad():
        detector.network.module.linear.weight.mul_(100)
    scores = detector.score(halves(32, seed=3).batch(range(32)))
    assert scores.lt(2**-24).float().mean() > 0.5  # max p is 1 in float32
    assert len(scores.unique()) == 32


def test_inliers_and_outliers_pass_the_network_as_one_batch() -> None:
    detector, sizes = OE(width=4, ratio=2, training={"steps": 1, "batch": 8, "augment": "none"}), list[int]()
    build = detector.build

    def spied(inputs: Inputs) -> dict[str, nn.Module]:
        modules = build(inputs)
        modules["network"].register_forward_pre_hook(
            lambda module, given: sizes.append(len(given[0])) if module.training else None
        )
        return modules

    detector.build = spied  # type: ignore[method-assign]
    detector.fit(halves(8), val=halves(4), auxiliary_outliers=bright(16))
    assert sizes == [8 + 16]


def test_weights_start_with_the_authors_variance_and_gray_images_have_the_mean_normalizer() -> None:
    network = OE(preset="full").build(Inputs(1, 32, 10))["network"]
    assert isinstance(network, Network)
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            assert layer.bias is not None
            assert not layer.bias.any()
            variance = 2 / (layer.kernel_size[0] ** 2 * layer.out_channels)
            assert abs(layer.weight.var().item() / variance - 1) < 0.15
    assert {layer.p for layer in network.modules() if isinstance(layer, nn.Dropout)} == {0.5}
    mean, std = (125.3 + 123.0 + 113.9) / 3 / 255, (63.0 + 62.1 + 66.7) / 3 / 255
    torch.testing.assert_close(network.normalize(torch.full((1, 1, 32, 32), mean + std)), torch.ones(1, 1, 32, 32))
