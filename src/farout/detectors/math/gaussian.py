"""Means, covariances and Mahalanobis distances of features, in float64."""

from __future__ import annotations

import torch
from torch import Tensor

ROWS = 1024
"""Rows taken at a time."""
FLAT = 1e-12
"""Features that differ by less than this, relative to the largest, differ by rounding."""


def class_means(features: Tensor, classes: Tensor, count: int) -> Tensor:
    """Mean feature of every class, [count, D]; each of the classes 0 to count − 1 has members."""
    sums = torch.zeros(count, features.shape[1], dtype=torch.float64, device=features.device)
    for rows, members in zip(features.split(ROWS), classes.split(ROWS), strict=True):
        sums.index_add_(0, members, rows.double())
    return sums / classes.bincount(minlength=count)[:, None]


def covariance(features: Tensor, means: Tensor, classes: Tensor) -> Tensor:
    """Mean outer product of the features around their class's mean, [D, D]."""
    total = means.new_zeros(means.shape[1], means.shape[1])
    for rows, members in zip(features.split(ROWS), classes.split(ROWS), strict=True):
        centred = rows.double() - means[members]
        total.addmm_(centred.T, centred)
    return total / len(features)


def whitener(covariance: Tensor) -> Tensor:
    """[D, r] with whitener @ whitener.T = pinv(covariance)."""
    values, vectors = torch.linalg.eigh(covariance)
    kept = values > values[-1] * len(values) * torch.finfo(values.dtype).eps
    whitening: Tensor = vectors[:, kept] * values[kept].rsqrt()
    return whitening


def fitted_gaussians(features: Tensor, classes: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Whitener of the classes' shared covariance [D, r], and the class means whitened [count, r].

    r is 0 where features do not vary within classes, but for rounding.
    """
    means = class_means(features, classes, count)
    whitening = whitener(covariance(features, means, classes))
    largest = max(float(rows.abs().amax()) for rows in features.split(ROWS))
    if whitening.shape[1] and 1 / float(whitening.norm(dim=0).amin()) <= FLAT * largest:
        whitening = whitening[:, :0]
    return whitening, means @ whitening


def squared_distances(features: Tensor, whitening: Tensor, means: Tensor) -> Tensor:
    """Mahalanobis distances, squared, to means that are whitened already: [B, count]."""
    mode = "donot_use_mm_for_euclid_dist"  # the product form loses the digits of small distances
    distances: Tensor = torch.cdist(features.double() @ whitening, means, compute_mode=mode)
    return distances.square()
