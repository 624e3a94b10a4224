"""Detector of Glow, with the settings of Yoon et al. 2022, appendix E.1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from farout.detectors.catalog import register
from farout.detectors.trained.density import DensityDetector
from farout.detectors.trained.detector import BY_PRESET, Preset
from farout.detectors.trained.glow.flow import Flow
from farout.training import Recipe


@register
@dataclass(kw_only=True, eq=False)
class Glow(DensityDetector):
    """Negative log-likelihood of a flow, in bits per dimension.

    Images train with uniform noise within their 8-bit bins, and are scored without.
    """

    name = "glow"
    presets: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {
        "small": {"depth": 8, "width": 64},
        "full": {"depth": 32, "width": 512},
    }
    levels: int = 3
    """Largest number of levels, each of which halves the side; a side of 28 can be halved twice only."""
    depth: int = BY_PRESET
    """Steps of flow per level (K of the paper)."""
    width: int = BY_PRESET
    """Channels of the networks of couplings."""

    def recipe(self) -> Recipe:
        full = Recipe(
            epochs=500, batch=64, optimizer="adam", lr=1e-4, weight_decay=0.0, schedule="constant", clip=0.1,
            augment="none",
        )  # fmt: skip
        return full if self.preset == "full" else full.changed(steps=2000, batch=32, lr=1e-3)

    def density(self, channels: int, side: int) -> Flow:
        return Flow(channels, side, min(self.levels, halvings(side)), self.depth, self.width)


def halvings(side: int) -> int:
    """Return how often a side can be halved."""
    return (side & -side).bit_length() - 1
