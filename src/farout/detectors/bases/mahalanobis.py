"""Base of the detectors that measure Mahalanobis distances of the penultimate features."""

from __future__ import annotations

from typing import ClassVar, Self

from torch import Tensor

from farout.core import Activations, PostHoc, Split
from farout.detectors.checks import check_finite
from farout.detectors.math.gaussian import fitted_gaussians, squared_distances


class Mahalanobis(PostHoc):
    """Base of the detectors that use Mahalanobis distances to the class means under one shared covariance.

    Penultimate features only. Directions without variance in training are left out (pseudo-inverse).
    """

    needs: ClassVar[frozenset[str]] = frozenset({"features"})
    fits_on: ClassVar[Split | None] = "train"

    def check_fit(self, total: int, labeled: bool) -> None:
        if not labeled:
            raise ValueError(f"{self.name} needs the class of every training image: give a training set with labels")

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        self.check_fit(len(activations), labels is not None)
        check_finite(activations, self.name)
        assert labels is not None
        present, classes = labels.unique(return_inverse=True)
        whitening, means = fitted_gaussians(activations.features, classes, len(present))
        if not whitening.shape[1]:
            raise ValueError(
                f"{self.name}: the features of {len(activations)} training images do not vary within {len(present)} "
                "classes; give more images per class"
            )
        self.state = {"whitener": whitening, "means": means}
        return self

    def nearest(self, activations: Activations) -> Tensor:
        """Return the squared distance of every row to the nearest class mean."""
        return squared_distances(activations.features, self.fitted("whitener"), self.fitted("means")).amin(1)
