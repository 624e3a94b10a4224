"""Outlier exposure (Hendrycks et al. 2019, "Deep Anomaly Detection with Outlier Exposure")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from farout.detectors.catalog import register
from farout.detectors.trained.classifier import normalized, renamed
from farout.detectors.trained.detector import BY_PRESET, Inputs, Preset, TrainingSets
from farout.detectors.trained.fine_tuned import AnyNetworkDetector
from farout.networks.allconv import AllConv
from farout.networks.network import Network
from farout.training import Recipe, Stage, Task
from farout.training.exposure import ExposedClassifier


class Exposure(ExposedClassifier):
    """Outlier exposure that keeps the weights of the last epoch, as the authors do."""

    stages = (Stage(),)


@register
@dataclass(kw_only=True, eq=False)
class OE(AnyNetworkDetector):
    """Outlier exposure: maximum softmax probability of a classifier that learned to be undecided on outliers.

    The loss is CE + weight · cross entropy to the uniform distribution on outliers (section 4, multiclass). With
    `start` it is the paper's fine-tuning: 10 epochs at a learning rate of 0.001 in its authors' code.
    """

    name = "oe"
    presets: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {
        "small": {"width": 24, "ratio": 1},
        "full": {"width": 96, "ratio": 2},
    }
    width: int = BY_PRESET
    """Channels of the first stage of allconv."""
    ratio: int = BY_PRESET
    """Outliers per inlier in a batch."""
    weight: float = 0.5
    """Weight of the loss on outliers."""

    def recipe(self) -> Recipe:
        if self.preset == "full":
            return Recipe(epochs=100, final_lr=1e-6)
        return Recipe(epochs=8, batch=64, lr=0.05, final_lr=1e-6)

    def build_own(self, inputs: Inputs) -> Network:
        return normalized(AllConv(inputs.classes, inputs.side, inputs.channels, self.width), inputs.channels)

    def task(self, sets: TrainingSets) -> Task:
        self.load_start()
        batch = self.ratio * self.batch
        return Exposure(self.network, sets.val, sets.outliers, batch=batch, weight=self.weight)

    def import_state(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return our tensors from those of the authors' allconv (cifar10_allconv_oe_scratch_epoch_99.pt)."""
        return renamed(tensors, _authors_layers())


def _authors_layers() -> dict[str, str]:
    """Return our names of the layers by those of the authors."""
    starts = {"stage1": (0, 3, 6), "stage2": (11, 14, 17), "stage3": (22, 25, 28)}
    layers = {"classifier": "linear"}
    for stage, numbers in starts.items():
        for number in numbers:
            for part in (number, number + 1):
                layers[f"features.{part}"] = f"{stage}.{part - numbers[0]}"
    return layers
