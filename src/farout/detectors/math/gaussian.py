"""Means, covariances and Mahalanobis distances of features, in float64."""

from __future__ import annotations

import torch
from torch import Tensor

ROWS = 1024
"""Rows processed at a time."""
FLAT = 1e-12
"""Relative difference below which features are equal up to rounding."""


def class_means(features: Tensor, classes: Tensor, count: int) -> Tensor:
    """Return the mean feature of every class, [count, D]; each class from 0 to count − 1 must have members."""
    sums = torch.zeros(count, features.shape[1], dtype=torch.float64, device=features.device)
    for rows, members in zip(features.split(ROWS), classes.split(ROWS), strict=True):
        sums.index_add_(0, members, rows.double())
    return sums / classes.bincount(minlength=count)[:, None]


def covariance(features: Tensor, means: Tensor, classes: Tensor) -> Tensor:
    """Return the mean outer product of the features around their class's mean, [D, D]."""
    total = means.new_zeros(means.shape[1], means.shape[1])
    for rows, members in zip(features.split(ROWS), classes.split(ROWS), strict=True):
        centered = rows.double() - means[members]
        total.addmm_(centered.T, centered)
    return total / len(features)


def ledoit_wolf(features: Tensor, mean: Tensor) -> Tensor:
    """Return the covariance of features [N, D] around their mean, shrunk toward a multiple of the identity, [D, D].

    The share of the identity is that of Ledoit and Wolf 2004, section 3.2, estimated from the features.
    """
    centered = features.double() - mean
    found = centered.T @ centered / len(features)
    scale = found.trace() / len(found)
    apart = found.square().sum() - len(found) * scale**2
    noise = (centered.square().sum(1).square().mean() - found.square().sum()) / len(features)
    share = (noise / apart).clamp(0, 1) if apart > 0 else apart.new_zeros(())
    return (1 - share) * found + share * scale * torch.eye(len(found), dtype=found.dtype, device=found.device)


def whitener(covariance: Tensor) -> Tensor:
    """Return [D, r] with whitener @ whitener.T = pinv(covariance)."""
    values, vectors = torch.linalg.eigh(covariance)
    kept = values > values[-1] * len(values) * torch.finfo(values.dtype).eps
    whitening: Tensor = vectors[:, kept] * values[kept].rsqrt()
    return whitening


def fitted_gaussians(features: Tensor, classes: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the whitener of the classes' shared covariance [D, r], and the whitened class means [count, r].

    r is 0 if features do not vary within classes, up to rounding.
    """
    means = class_means(features, classes, count)
    whitening = whitener(covariance(features, means, classes))
    largest = max(float(rows.abs().amax()) for rows in features.split(ROWS))
    if whitening.shape[1] and 1 / float(whitening.norm(dim=0).amin()) <= FLAT * largest:
        whitening = whitening[:, :0]
    return whitening, means @ whitening


def squared_distances(features: Tensor, whitening: Tensor, means: Tensor) -> Tensor:
    """Return squared Mahalanobis distances to whitened means: [B, count]."""
    mode = "donot_use_mm_for_euclid_dist"  # the product form loses precision for small distances
    distances: Tensor = torch.cdist(features.double() @ whitening, means, compute_mode=mode)
    return distances.square()
