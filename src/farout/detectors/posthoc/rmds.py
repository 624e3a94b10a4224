"""`rmds`: relative Mahalanobis distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from farout.core import Activations
from farout.detectors.bases.mahalanobis import Mahalanobis
from farout.detectors.catalog import register
from farout.detectors.math.gaussian import fitted_gaussians, squared_distances


@register
@dataclass(kw_only=True)
class RMDS(Mahalanobis):
    """Relative Mahalanobis distance (Ren et al. 2021): score = min_k d_k − d_0.

    d_k is the squared distance of mds to the mean of class k; d_0 that to the mean of all training features, under
    their covariance regardless of class. OpenOOD computes the same in float32. Directions without variance are left out
    of both.
    """

    name = "rmds"
    compares_classes: ClassVar[bool] = True

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        super().fit(activations, labels)
        if len(self.state["means"]) < 2:
            self.state = {}
            raise ValueError("rmds compares classes with their union: give a training set of at least two classes")
        everything = torch.zeros(len(activations), dtype=torch.long, device=activations.features.device)
        whitening, mean = fitted_gaussians(activations.features, everything, 1)
        self.state |= {"background_whitener": whitening, "background_mean": mean}
        return self

    def score(self, activations: Activations) -> Tensor:
        whitening, mean = self.fitted("background_whitener"), self.fitted("background_mean")
        return self.nearest(activations) - squared_distances(activations.features, whitening, mean).squeeze(1)
