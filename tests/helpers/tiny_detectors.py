"""A trained detector that is trained in no time, and learns from outliers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from farout.core import ImageSet
from farout.detectors.trained.detector import BY_PRESET, Inputs, Outliers, Preset, TrainedDetector, TrainingSets
from farout.identity import Json
from farout.training import Batch, Context, Recipe, Stream, Task


class Apart(Task):
    """Low outputs on inliers, high ones on outliers."""

    def __init__(self, detector: Tiny, outliers: ImageSet | None) -> None:
        self.modules, self.outliers = detector.modules, outliers

    @property
    def identity(self) -> Json:
        return {"name": "apart", "version": 1}

    @property
    def streams(self) -> Mapping[str, Stream]:
        return {} if self.outliers is None else {"outliers": Stream(self.outliers, batch=8)}

    def loss(self, player: str, batch: Batch, context: Context) -> Tensor:
        loss: Tensor = self.modules["net"](batch.images).mean()
        return loss - sum(self.modules["net"](one.images).tanh().mean() for one in batch.streams.values())


@dataclass(kw_only=True, eq=False)
class Tiny(TrainedDetector):
    """Linear function of the image, minus its mean over the training images."""

    name = "tiny"
    outliers: ClassVar[Outliers] = "required"
    presets: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {"small": {"width": 2}, "full": {"width": 3}}
    width: int = BY_PRESET
    power: float = 1.0
    """Exponent of the score's size."""

    def recipe(self) -> Recipe:
        return Recipe(epochs=2, batch=16, lr=0.01, weight_decay=0.0, schedule="constant", augment="none")

    def build(self, inputs: Inputs) -> dict[str, nn.Module]:
        layers = nn.Flatten(), nn.Linear(inputs.size, self.width), nn.Linear(self.width, 1), nn.Flatten(0)
        return {"net": nn.Sequential(*layers)}

    def task(self, sets: TrainingSets) -> Task:
        return Apart(self, sets.outliers)

    @torch.no_grad()
    def measure(self, train: ImageSet, *, seed: int) -> dict[str, Tensor]:
        return {"mean": torch.cat([self.modules["net"](part) for part in train]).double().mean()}

    def compute(self, images: Tensor) -> Tensor:
        apart = self.modules["net"](images) - self.statistics["mean"]
        return apart.sign() * apart.abs() ** self.power

    def import_state(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return {f"net.{ours}.{kind}": tensors[f"{theirs}.{kind}"] for ours, theirs in ((1, "first"), (2, "last"))
                for kind in ("weight", "bias")}  # fmt: skip
