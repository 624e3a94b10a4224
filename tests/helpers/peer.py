"""pytorch-ood where it is installed, and activations for both libraries: of a small network, and random ones."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import farout
from farout.core import Activations, PostHoc
from farout.networks.network import Network
from farout.optional import mend_torchvision


def load() -> ModuleType:
    """Its detectors; the tests that ask are skipped where it cannot be imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            mend_torchvision()  # which pytorch-ood imports, and which is broken on CPU builds of torch
            import pytorch_ood.detector
        except ImportError as error:
            pytest.skip(f"pytorch-ood cannot be imported ({error}); `make parity` installs it", allow_module_level=True)
    return pytorch_ood.detector


@dataclass(frozen=True)
class Case:
    """What both libraries read. The labels of both splits are what the last layer predicts, so every class is there."""

    train: Activations
    val: Activations
    test: Activations
    linear: nn.Linear

    @property
    def labels(self) -> Tensor:
        return self.train.logits.argmax(1)

    def head(self, features: Tensor) -> Tensor:
        """The last layer, on features [B, D] or [B, D, 1, 1]."""
        logits: Tensor = self.linear(features.flatten(1))
        return logits

    def ours(self, detector: PostHoc) -> Tensor:
        """Scores on the test split, after fitting."""
        split = self.val if detector.fits_on == "val" else self.train
        return detector.fit(split, split.logits.argmax(1)).score(self.test)


def random_case(seed: int = 0, classes: int = 7, width: int = 48) -> Case:
    """Features as a ReLU leaves them, around class centers, and a random last layer that predicts every class."""
    generator = torch.Generator().manual_seed(seed)
    centers = torch.randn(classes, width, generator=generator)
    linear = nn.Linear(width, classes).requires_grad_(False)
    linear.weight.copy_(centers + 0.3 * torch.randn(classes, width, generator=generator)).mul_(0.15)
    linear.bias.copy_(torch.randn(classes, generator=generator))

    def draw(count: int) -> Activations:
        chosen = torch.randint(classes, (count,), generator=generator)
        features = F.relu(centers[chosen] + torch.randn(count, width, generator=generator))
        return Activations(linear(features), features, head=farout.core.Head(linear.weight, linear.bias))

    return Case(draw(900), draw(400), draw(200), linear)


def images(count: int, seed: int) -> Tensor:
    """Colour gradients with noise, [B, 3, 32, 32] in [0, 1]: varied enough that features differ."""
    generator = torch.Generator().manual_seed(seed)
    coarse = F.interpolate(torch.rand(count, 3, 4, 4, generator=generator), (32, 32), mode="bilinear")
    return (coarse + 0.1 * torch.randn(count, 3, 32, 32, generator=generator)).clamp(0, 1)


def small_network() -> Network:
    """A ResNet-20 with random weights, its last layer set so that every class is predicted about as often."""
    network = farout.networks.create("resnet20", classes=10, side=32, std=0.25, seed=3)
    linear = network.module.linear
    with torch.no_grad():
        features = network(images(256, seed=9), needs=()).features
        linear.weight.copy_(torch.randn(linear.weight.shape, generator=torch.Generator().manual_seed(4)))
        linear.weight.div_(features.std(0) + 1e-3).mul_(0.3)
        linear.bias.copy_(-linear.weight @ features.mean(0))
    return network


@torch.no_grad()
def network_case(network: Network) -> Case:
    train, val, test = (network(images(count, seed), needs=()) for seed, count in enumerate((900, 400, 200)))
    return Case(train, val, test, network.module.linear)


def worst(theirs: Tensor, ours: Tensor) -> float:
    """The largest difference, as a share of the largest score."""
    assert theirs.shape == ours.shape
    return float((theirs.double() - ours).abs().max() / ours.abs().max())


def same_order(first: Tensor, second: Tensor) -> float:
    """Spearman's rank correlation."""
    ranks = torch.stack([scores.argsort().argsort().double() for scores in (first, second)])
    return float(torch.corrcoef(ranks)[0, 1])
