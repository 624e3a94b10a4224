"""Detector of PixelCNN++, with the settings of Yoon et al. 2022, appendix E.1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from farout.detectors.catalog import register
from farout.detectors.trained.density import DensityDetector
from farout.detectors.trained.detector import BY_PRESET, Preset
from farout.detectors.trained.pixelcnn.network import PixelNetwork
from farout.training import Recipe


@register
@dataclass(kw_only=True, eq=False)
class PixelCNN(DensityDetector):
    """Negative log-likelihood of PixelCNN++, in bits per dimension.

    The network trains on pixels in [−1, 1].
    """

    name = "pixelcnn"
    presets: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {
        "small": {"blocks": 1, "width": 24, "mixtures": 5},
        "full": {"blocks": 5, "width": 80, "mixtures": 10},
    }
    blocks: int = BY_PRESET
    """Gated blocks per resolution (the paper's resnets)."""
    width: int = BY_PRESET
    """Channels of every stream (the paper's filters)."""
    mixtures: int = BY_PRESET
    """Logistic distributions per pixel."""
    published_range: bool = False
    """True to score pixels in [0, 1], as the published code of Yoon et al. 2022 does by mistake: the probabilities of
    the 256 values of a pixel then sum to about 2."""

    def recipe(self) -> Recipe:
        full = Recipe(
            epochs=200, batch=64, optimizer="adam", lr=1e-4, weight_decay=0.0, schedule="constant", decay=0.999995,
            augment="flip",
        )  # fmt: skip
        return full if self.preset == "full" else full.changed(steps=2000, batch=32, lr=1e-3)

    def density(self, channels: int, side: int) -> PixelNetwork:
        return PixelNetwork(channels, self.blocks, self.width, self.mixtures)

    def compute(self, images: Tensor) -> Tensor:
        return super().compute((images + 1) / 2 if self.published_range else images)
