"""`react`: rectified activations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from torch import Tensor

from farout.checks import check_percent
from farout.core import Activations, Split
from farout.detectors.bases.shaping import Shaping
from farout.detectors.catalog import register
from farout.detectors.checks import check_finite
from farout.detectors.math.percentile import percentile_of


@register
@dataclass(kw_only=True)
class ReAct(Shaping):
    """Rectified activations (Sun et al. 2021, eq. 2): every entry of f is clipped at c.

    c is the `percentile` of all entries of f on the inlier validation split. OpenOOD does the same.
    """

    name = "react"
    fits_on: ClassVar[Split | None] = "val"
    percentile: float = 90.0
    """Percentile of the features at which entries are clipped."""

    def __post_init__(self) -> None:
        check_percent("percentile", self.percentile)

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        check_finite(activations, self.name)
        self.state = {"limit": percentile_of(activations.features, self.percentile)}
        return self

    def shaped(self, features: Tensor) -> Tensor:
        return features.minimum(self.fitted("limit"))
