"""`scale`: activation scaling."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from farout.checks import check_percent
from farout.core import Activations
from farout.detectors.bases.shaping import Shaping, kept_count, sharpening
from farout.detectors.catalog import register


@register
@dataclass(kw_only=True)
class Scale(Shaping):
    """SCALE (Xu et al. 2024, eq. 5 and 6): f is multiplied by exp(Σf / Σ of its k largest entries), nothing is pruned.

    k = n − round(n · percentile / 100). The factor is meaningful only for f ≥ 0, as after a ReLU: negative features
    raise an error when scored. OpenOOD does the same.
    """

    name = "scale"
    percentile: float = 85.0
    """Percent of the entries that are not among the k largest."""

    def __post_init__(self) -> None:
        check_percent("percentile", self.percentile)

    def check_network(self, activations: Activations) -> None:
        self.shaped(activations.features.double())

    def shaped(self, features: Tensor) -> Tensor:
        if (features < 0).any():
            raise ValueError(
                f"scale takes features that are not negative, as after a ReLU; got values down to "
                f"{features.min():.4g}: it cannot be used on this network"
            )
        largest = features.topk(kept_count(features, self.percentile, self.name), dim=1).values
        return features * sharpening(features, largest.sum(1, keepdim=True))
