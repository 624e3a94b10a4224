"""Base of detectors that correct the likelihood of another detector's density."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from torch import Tensor

from farout.checks import check_choice
from farout.detectors.trained.density import Density, DensityDetector, bits_per_dimension
from farout.detectors.trained.detector import TrainedDetector
from farout.detectors.trained.glow import Glow
from farout.detectors.trained.pixelcnn import PixelCNN
from farout.detectors.trained.settings import Settings
from farout.registry import unknown
from farout.training import Recipe

DensityName = Literal["pixelcnn", "glow"]
DENSITIES: Mapping[str, type[DensityDetector]] = {"pixelcnn": PixelCNN, "glow": Glow}


@dataclass(kw_only=True, eq=False)
class OnDensity(TrainedDetector):
    """Detector that trains the density of `pixelcnn` or `glow`, with the same preset."""

    at_once: ClassVar[int] = DensityDetector.at_once
    density: DensityName = "pixelcnn"
    """Detector whose density is trained: "pixelcnn" or "glow"."""
    density_params: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of that detector that differ from its preset's: {width: 32}."""

    def __post_init__(self) -> None:
        check_choice("density", self.density, tuple(DENSITIES))
        if not isinstance(self.density_params, Mapping):
            raise TypeError(
                f"density_params must map parameters to values, such as {{width: 32}}, got {self.density_params!r}"
            )
        if own := [name for name in Settings.__dataclass_fields__ if name in self.density_params]:
            raise ValueError(
                f"{self.name}: {', '.join(own)} of the density are those of {self.name} itself; move them out of "
                f"density_params: {own[0]}={self.density_params[own[0]]!r}"
            )
        known = DENSITIES[self.density].__dataclass_fields__
        for name in self.density_params:
            if name not in known or not known[name].init:
                raise unknown(
                    f"parameter of {self.density}:", name, known.keys() - Settings.__dataclass_fields__.keys()
                )
        super().__post_init__()

    @property
    def source(self) -> DensityDetector:
        """Detector whose density and recipe are used."""
        return DENSITIES[self.density](**{"preset": self.preset, **self.density_params})

    def recipe(self) -> Recipe:
        return self.source.recipe()

    def bits(self, module: str, images: Tensor) -> Tensor:
        """Return the negative log-likelihood of a module in bits per dimension, [B]."""
        density = self.modules[module]
        assert isinstance(density, Density)
        return bits_per_dimension(density.log_likelihood(images), images)
