"""`knn`: distance to the k-th nearest training feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from farout.detectors.bases.nearest import Nearest
from farout.detectors.catalog import register
from farout.detectors.math.neighbors import Bank


@register
@dataclass(kw_only=True)
class KNN(Nearest):
    """Distance to the k-th nearest training feature, all features scaled to length 1 (Sun et al. 2022, eq. 3).

    OpenOOD takes the squared distance, which gives the same ranks. search: "torch", or "faiss" if that extra is
    installed; the scores are the same.
    """

    name = "knn"
    unit: ClassVar[bool] = True
    k: int = 50
    """Rank of the neighbor whose distance is the score."""

    def distance(self, bank: Bank, features: Tensor) -> Tensor:
        return bank.nearest(features, self.k - 1, self.k).squeeze(1)
