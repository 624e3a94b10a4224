"""SNGP (Liu et al. 2020, arXiv:2006.10108), with the settings that EvG's authors used, those of DUE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from farout.core import ImageSet
from farout.detectors.catalog import register
from farout.detectors.trained.classifier import NetworkDetector
from farout.detectors.trained.detector import BY_PRESET, Inputs, Preset, TrainingSets
from farout.detectors.trained.sngp.bounded import bounded
from farout.detectors.trained.sngp.process import ProcessNetwork, dempster_shafer, laplace_covariance, mean_field
from farout.networks.network import Network
from farout.networks.wide import WideResNet
from farout.training import Recipe, Task
from farout.training.classifier import Classifier

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
"""Normalizer of CIFAR-10; gray images take the mean of the three."""
COVARIANCE = "covariance"


@register
@dataclass(kw_only=True, eq=False)
class SNGP(NetworkDetector):
    """Dempster–Shafer uncertainty of a network with bounded layers and a Gaussian process as its last layer.

    The covariance is computed from all training images once the training has ended, without augmentation; DUE's code
    adds it up over the batches of the last epoch.
    """

    name = "sngp"
    presets: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {
        "small": {"depth": 16, "factor": 2, "random_features": 256, "dropout": 0.0},
        "full": {"depth": 28, "factor": 10, "random_features": 1024, "dropout": 0.3},
    }
    depth: int = BY_PRESET
    """Layers of the Wide ResNet: 6n + 4."""
    factor: int = BY_PRESET
    """Widening factor of the Wide ResNet."""
    dropout: float = BY_PRESET
    """Probability of dropping a value between the convolutions of a block."""
    random_features: int = BY_PRESET
    """Number of random Fourier features."""
    reduced: int = 128
    """Size of the features that the Gaussian process reads."""
    bound: float = 3.0
    """Largest gain of every convolution and batch norm."""
    mean_field_factor: float = 25.0
    """λ of the logits / √(1 + λ · variance)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.depth < 10 or self.depth % 6 != 4:
            raise ValueError(f"sngp: depth must be 6n + 4 with n of at least 1 (10, 16, 22, 28, …), got {self.depth}")

    def recipe(self) -> Recipe:
        if self.preset == "small":
            return Recipe(epochs=15, batch=128, lr=0.05, nesterov=False)
        return Recipe(
            epochs=200, batch=128, lr=0.05, nesterov=False, schedule="milestones", milestones=(60, 120, 160), factor=0.2
        )

    def build(self, inputs: Inputs) -> dict[str, nn.Module]:
        body = WideResNet(
            self.depth, self.factor, classes=inputs.classes, side=inputs.side, channels=inputs.channels, width=16,
            dropout=self.dropout,
        )  # fmt: skip
        bounded(body, inputs.channels, inputs.side, self.bound)
        module = ProcessNetwork(body, reduced=self.reduced, random=self.random_features)
        mean, std = (MEAN, STD) if inputs.channels == 3 else (sum(MEAN) / 3, sum(STD) / 3)
        return {"network": Network(module, mean=mean, std=std, head="beta")}

    def task(self, sets: TrainingSets) -> Task:
        return Classifier(self.network, sets.val)

    @torch.no_grad()
    def measure(self, train: ImageSet, *, seed: int) -> dict[str, Tensor]:
        device = self.network.device
        features = (self.network(part.to(device), needs=()).features for part in train)
        return {COVARIANCE: laplace_covariance(features, self.random_features)}

    def compute(self, images: Tensor) -> Tensor:
        passed = self.network(images, needs=())
        return dempster_shafer(
            mean_field(passed.logits, passed.features, self.statistics[COVARIANCE], self.mean_field_factor)
        )
