"""`mds`: Mahalanobis distance to the nearest class mean."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from farout.core import Activations
from farout.detectors.bases.mahalanobis import Mahalanobis
from farout.detectors.catalog import register


@register
@dataclass(kw_only=True)
class MDS(Mahalanobis):
    """Mahalanobis distance to the nearest class mean, one shared covariance (Lee et al. 2018, eq. 2).

    Penultimate features only. Directions without variance in training are left out (pseudo-inverse).
    """

    name = "mds"

    def score(self, activations: Activations) -> Tensor:
        return self.nearest(activations)
