"""The detectors that pytorch-ood has, too, through its adapter: scores of images as our own detectors give them.

Its factors and constants, which change no ranking, are taken off: the best straight line between the two must fit.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import farout
from farout.adapters import PytorchOOD
from farout.core import PostHoc
from farout.detectors import (
    ASH,
    DICE,
    EBO,
    GEN,
    KLM,
    KNN,
    MDS,
    MLS,
    MSP,
    ODIN,
    RMDS,
    SHE,
    Entropy,
    GradNorm,
    NNGuide,
    ReAct,
    Scale,
)

SHARE = {"odin": 1e-2, "rmds": 1e-2}
"""Largest difference allowed, as a share of the range of scores, where it is not 1e-3: steps by the sign of float32
gradients, and a small difference of two large distances. Its vim and temp_scaling differ more, see tests/parity."""


class Parts(NamedTuple):
    """What its detectors are made of: the classifier, its features [B, D], the same as maps [B, D, 1, 1], the head."""

    model: nn.Module
    encoder: nn.Module
    maps: nn.Module
    head: nn.Module
    linear: nn.Linear


def made(library: Any, parts: Parts) -> dict[str, tuple[Callable[[], PostHoc], Callable[[], Any]]]:
    """By name, a detector of ours and the same of the library's."""
    model, encoder, maps, head, linear = parts
    return {
        "msp": (MSP, lambda: library.MaxSoftmax(model)),
        "entropy": (Entropy, lambda: library.Entropy(model)),
        "mls": (MLS, lambda: library.MaxLogit(model)),
        "ebo": (EBO, lambda: library.EnergyBased(model)),
        "gen": (GEN, lambda: library.GEN(model)),
        "klm": (KLM, lambda: library.KLMatching(model)),
        "odin": (
            lambda: ODIN(temperature=1000.0, epsilon=0.0014),
            lambda: library.ODIN(model, temperature=1000.0, eps=0.0014, norm_std=[0.3] * 3),
        ),
        "react": (ReAct, lambda: library.ReAct(maps, head, percentile=0.9)),
        "ash": (lambda: ASH(kind="S", percentile=80), lambda: library.ASH(maps, head, "ash-s", 0.8)),
        "scale": (Scale, lambda: library.SCALE(maps, head, percentile=0.85)),
        "dice": (DICE, lambda: library.DICE(encoder, linear.weight, linear.bias, p=0.9)),
        "knn": (lambda: KNN(k=5), lambda: library.KNN(encoder, k=5)),
        "nnguide": (lambda: NNGuide(k=10), lambda: library.NNGuide(encoder, linear, k=10)),
        "she": (SHE, lambda: library.SHE(encoder, linear)),
        "gradnorm": (GradNorm, lambda: library.GradNorm(model, param_filter=lambda name: name == "linear.weight")),
        "mds": (MDS, lambda: library.Mahalanobis(encoder)),
        "rmds": (RMDS, lambda: library.RMD(encoder)),
    }


NAMES = tuple(made(None, Parts(*[None] * 5)))  # type: ignore[list-item]


class Features(nn.Module):
    """The penultimate features of a ResNet; with `as_maps` as maps of one place."""

    def __init__(self, module: Any, as_maps: bool) -> None:
        super().__init__()
        self.module, self.as_maps = module, as_maps

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.module.bn1(self.module.conv1(x)))
        for name in self.module.block_names:
            x = self.module.get_submodule(name)(x)
        features = x.mean((2, 3))
        return features[:, :, None, None] if self.as_maps else features


@pytest.fixture(scope="module")
def library() -> Any:
    """pytorch-ood; skipped where it is absent."""
    if importlib.util.find_spec("pytorch_ood") is None or importlib.util.find_spec("torchvision") is None:
        pytest.skip("pytorch-ood is not installed")
    from farout.optional import mend_torchvision

    mend_torchvision()
    import pytorch_ood.detector

    return pytorch_ood.detector


@pytest.fixture(scope="module")
def network() -> farout.Network:
    """A ResNet-20 whose last layer has the classes' mean features as rows, so that it predicts each of them."""
    network = farout.networks.create("resnet20", 4, 32, mean=0.4, std=0.3, seed=2)
    train = farout.load("toy", "train", limit=400)
    with torch.no_grad():
        features = torch.cat([network(batch).features for batch in train])
        assert train.labels is not None
        labels = torch.from_numpy(train.labels)
        means = torch.stack([features[labels == label].mean(0) for label in range(4)])
        unit = means - means.mean(0)
        unit = unit / (features @ unit.T).std()  # logits that leave no share of a softmax near 0
        linear = network.module.linear
        linear.weight.copy_(unit)  # type: ignore[operator, union-attr]
        linear.bias.copy_(-(unit * (means + means.mean(0)) / 2).sum(1))  # type: ignore[operator, union-attr]
    return network


@pytest.fixture(scope="module")
def train(network: farout.Network) -> farout.ImageSet:
    """Images with the classes that the network predicts, so that every class has some that it gets right."""
    images = torch.cat(list(farout.load("toy", "train", limit=400)))
    with torch.no_grad():
        predicted = network(images).logits.argmax(1)
    assert len(predicted.unique()) == 4
    return farout.ImageSet.from_arrays(images.numpy(), predicted.numpy())


@pytest.mark.parametrize("name", NAMES)
def test_scores_agree_with_ours(library: Any, network: farout.Network, train: farout.ImageSet, name: str) -> None:
    module: Any = network.module
    head = nn.Sequential(nn.Flatten(), module.linear)
    parts = Parts(module, Features(module, as_maps=False), Features(module, as_maps=True), head, module.linear)
    ours, theirs = (make() for make in made(library, parts)[name])
    images = farout.load("toy").batch(range(60))
    detector = PytorchOOD(theirs, normalize=network)
    detector.fit(train)
    panel = farout.Panel(network, {name: ours}).fit(train, train)
    expected, got = panel.score(images)[name], detector.score(images).numpy()
    slope, constant = np.polyfit(expected, got, 1)
    assert slope > 0
    assert np.abs(slope * expected + constant - got).max() <= SHARE.get(name, 1e-3) * np.ptp(got)
