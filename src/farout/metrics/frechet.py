"""Fréchet distance of two sets of features (FID), with streaming moments and an interval."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from farout.metrics.counts import FloatArray, as_fraction
from farout.metrics.intervals import Interval

_ROWS = 4096  # features converted to float64 at once


class Moments:
    """Mean and covariance of features, accumulated in float64 over any number of batches.

    Batches are merged by their means (Chan et al. 1983), so that a large mean costs no precision.
    """

    def __init__(self, dim: int) -> None:
        self.count = 0
        self.mean: FloatArray = np.zeros(dim)
        self._scatter: FloatArray = np.zeros((dim, dim))

    @classmethod
    def of(cls, features: ArrayLike) -> Moments:
        """Return the moments of features [N, D]."""
        rows = as_features(features)
        moments = cls(rows.shape[1])
        for start in range(0, len(rows), _ROWS):
            moments.update(rows[start : start + _ROWS])
        return moments

    def update(self, features: ArrayLike) -> None:
        """Add a batch of features [B, D]."""
        rows = as_features(features).astype(np.float64)
        if rows.shape[1] != len(self.mean):
            raise ValueError(f"got features of {rows.shape[1]} dimensions after {len(self.mean)}; use one network")
        mean = rows.mean(0)
        rows = rows - mean
        shift, total = mean - self.mean, self.count + len(rows)
        self._scatter += rows.T @ rows + np.outer(shift, shift) * (self.count * len(rows) / total)
        self.mean = self.mean + shift * (len(rows) / total)
        self.count = total

    @property
    def covariance(self) -> FloatArray:
        """Unbiased covariance [D, D], the scatter over N − 1."""
        if self.count < 2:
            raise ValueError(f"got {self.count} features, expected at least 2 for a covariance")
        return self._scatter / (self.count - 1)


def fid(features_a: ArrayLike, features_b: ArrayLike) -> float:
    """Return the Fréchet distance of features [N, D] and [M, D] (Heusel et al. 2017, eq. 6).

    |μ_a − μ_b|² + tr(Σ_a + Σ_b − 2 (Σ_a Σ_b)^½) in float64, with covariances over N − 1. Compare it only between
    features of the same network and sets of the same size: see `fid_interval` on its bias.
    """
    return frechet_distance(Moments.of(features_a), Moments.of(features_b))


def frechet_distance(a: Moments, b: Moments) -> float:
    """Return the Fréchet distance of two Gaussians with these moments.

    With factors Σ = F Fᵀ from the symmetric eigenvalue problem, tr (Σ_a Σ_b)^½ is the sum of the singular values of
    F_aᵀ F_b: no square root of a matrix that is not symmetric, and any rank is allowed.
    """
    if len(a.mean) != len(b.mean):
        raise ValueError(f"features have {len(a.mean)} and {len(b.mean)} dimensions, expected those of one network")
    coupling = np.linalg.svd(_Factor.of(a.covariance).root.T @ _Factor.of(b.covariance).root, compute_uv=False)
    shift = a.mean - b.mean
    traces = np.trace(a.covariance) + np.trace(b.covariance) - 2 * coupling.sum()
    return float(max(shift @ shift + traces, 0.0))


def fid_interval(features_a: ArrayLike, features_b: ArrayLike, *, level: float = 0.95) -> Interval:
    """Return the FID with its normal interval from the influence of every image on both sides (delta method).

    It covers the variation between samples of these sizes, and not the bias: from N and M images of two distributions
    at distance d the FID is on average d plus a term of order D² (1/N + 1/M), which for equal normal distributions with
    covariance σ²I is σ² (D + D (D + 1) / 4) (1/N + 1/M). So only sets of equal size are comparable, and an FID near
    that of two halves of the real images shows no difference. Near d = 0 the influences vanish and the interval is too
    short. A bootstrap would add the bias once more; nothing is resampled here.
    """
    a, b = as_features(features_a), as_features(features_b)
    sides = Moments.of(a), Moments.of(b)
    value = frechet_distance(*sides)
    variance = _variance(a, *sides) + _variance(b, *reversed(sides))
    reach = -float(ndtri((1 - as_fraction(level, "level")) / 2)) * sqrt(variance)
    return Interval(value, max(0.0, value - reach), value + reach)


def as_features(features: ArrayLike) -> FloatArray:
    """Return features as an array [N, D] of finite floats."""
    rows = np.asarray(features)
    if rows.ndim != 2 or not rows.shape[0] or not rows.shape[1]:
        raise ValueError(f"features have shape {rows.shape}, expected [N, D]: one row per image; flatten maps first")
    if not np.issubdtype(rows.dtype, np.number) or not np.isfinite(rows).all():
        raise ValueError(f"features of type {rows.dtype} hold values that are not finite numbers")
    return rows


class _Factor(NamedTuple):
    """Eigenvectors [D, r] of a covariance and the square roots of its eigenvalues [r] above rounding errors."""

    vectors: FloatArray
    scales: FloatArray

    @staticmethod
    def of(covariance: FloatArray) -> _Factor:
        values, vectors = np.linalg.eigh(covariance)
        kept = values > max(values[-1], 0.0) * len(values) * np.finfo(np.float64).eps
        return _Factor(vectors[:, kept], np.sqrt(values[kept]))

    @property
    def root(self) -> FloatArray:
        """F [D, r] with F Fᵀ = Σ."""
        return self.vectors * self.scales


def _variance(features: FloatArray, own: Moments, other: Moments) -> float:
    """Return the variance of the FID due to the features of one side.

    The influence of x is 2 (μ − μ')ᵀ(x − μ) + (x − μ)ᵀ(I − T)(x − μ), less its mean, with T the matrix of the optimal
    transport from this side's Gaussian to the other's: T = Σ^−½ (Σ^½ Σ' Σ^½)^½ Σ^−½ = G Gᵀ.
    """
    factor = _Factor.of(own.covariance)
    left, values, _ = np.linalg.svd(factor.root.T @ _Factor.of(other.covariance).root, full_matrices=False)
    transport = (factor.vectors / factor.scales) @ (left * np.sqrt(values))
    parts = []
    for start in range(0, len(features), _ROWS):
        rows = features[start : start + _ROWS].astype(np.float64) - own.mean
        parts.append(2 * rows @ (own.mean - other.mean) + (rows**2).sum(1) - ((rows @ transport) ** 2).sum(1))
    return float(np.concatenate(parts).var(ddof=1) / len(features))
