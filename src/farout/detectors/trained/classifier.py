"""Base of the trained detectors that are classifiers and learn from outliers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar

from torch import Tensor, nn

from farout.detectors.posthoc.msp import MSP
from farout.detectors.trained.detector import Outliers, TrainedDetector
from farout.networks.network import Network

MEAN = (125.3 / 255, 123.0 / 255, 113.9 / 255)
"""Mean of CIFAR-10's channels, as OE's and ATOM's authors set it."""
STD = (63.0 / 255, 62.1 / 255, 66.7 / 255)
OTHERS = ("bias", "running_mean", "running_var", "num_batches_tracked")
"""Tensors that a layer may have besides its weight."""


@dataclass(kw_only=True, eq=False)
class NetworkDetector(TrainedDetector):
    """Base of detectors whose only module is a classifier, "network"."""

    labeled: ClassVar[bool] = True

    @property
    def network(self) -> Network:
        """The classifier, with its normalizer."""
        network = self.modules["network"]
        assert isinstance(network, Network)
        return network


@dataclass(kw_only=True, eq=False)
class ClassifierDetector(NetworkDetector):
    """Classifier that learns from inliers and outliers; the score is that of `msp`, 1 − max p."""

    outliers: ClassVar[Outliers] = "required"

    @property
    def batch(self) -> int:
        """Number of inliers in a batch."""
        return self.recipe().changed(**self.training).batch

    def compute(self, images: Tensor) -> Tensor:
        return MSP().score(self.network(images, needs=()))


def normalized(module: nn.Module, channels: int) -> Network:
    """Return the network with CIFAR-10's mean and standard deviation; for gray images with their averages."""
    if channels == 3:
        return Network(module, mean=MEAN, std=STD)
    return Network(module, mean=[fmean(MEAN)], std=[fmean(STD)])


def renamed(tensors: Mapping[str, Tensor], layers: Mapping[str, str]) -> dict[str, Tensor]:
    """Return the tensors of an authors' checkpoint under the names of a classifier detector's state.

    layers: our names of layers by theirs.
    """
    state = {}
    for theirs, ours in layers.items():
        state[f"network.{ours}.weight"] = tensors[f"{theirs}.weight"]
        found = [kind for kind in OTHERS if f"{theirs}.{kind}" in tensors]
        state |= {f"network.{ours}.{kind}": tensors[f"{theirs}.{kind}"] for kind in found}
    return state
