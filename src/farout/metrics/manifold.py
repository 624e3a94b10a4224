"""Precision, recall, density and coverage of generated images, from nearest neighbors among features."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from farout.metrics.counts import FloatArray, IntArray, as_fraction
from farout.metrics.frechet import as_features
from farout.metrics.intervals import Interval, clopper_pearson_bounds

NEAREST = 5
"""Usual number of neighbors (Naeem et al. 2020, section 4.1)."""
_BLOCK = 2**22  # distances computed at once


class PRDC(NamedTuple):
    """Fidelity (precision, density) and diversity (recall, coverage) of generated images, with intervals."""

    precision: Interval
    """Share of generated images in the manifold of real ones, the union of balls that reach to the k-th neighbor."""
    recall: Interval
    """Share of real images in the manifold of generated ones."""
    density: Interval
    """Mean number of real balls that contain a generated image, over k; 1 for equal distributions, may exceed 1."""
    coverage: Interval
    """Share of real balls that contain a generated image."""


def prdc(real: ArrayLike, generated: ArrayLike, *, k: int = NEAREST, level: float = 0.95) -> PRDC:
    """Return precision, recall, density and coverage of generated images.

    Kynkäänniemi et al. 2019, section 2 (precision and recall); Naeem et al. 2020, section 3 (density and coverage).
    real, generated: features [N, D] and [M, D] of one network. k: the ball around an image reaches to its k-th nearest
    neighbor in the same set, itself excluded. Distances are computed in blocks, so memory does not grow with N · M.

    The intervals cover the choice of the images whose share is taken, exact for shares (Clopper and Pearson), normal
    for the density; the set that they are compared with is taken as given. Resampling that set would put copies of an
    image at distance 0, which shrinks the balls.
    """
    x, y = _centered(as_features(real), as_features(generated))
    for name, rows in (("real", x), ("generated", y)):
        if not 1 <= k < len(rows):
            raise ValueError(f"k is {k} for {len(rows)} {name} images, expected from 1 up to one less than these")
    inside, found, covered = _counts(x, y, _radii(x, k), _radii(y, k))
    tail = (1 - as_fraction(level, "level")) / 2
    return PRDC(_share(inside > 0, tail), _share(found, tail), _mean(inside / k, tail), _share(covered, tail))


def _centered(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return both sets in float64 around the mean of the first, where squared distances lose the fewest digits."""
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"features have {x.shape[1]} and {y.shape[1]} dimensions, expected those of one network")
    x, y = x.astype(np.float64), y.astype(np.float64)
    mean = x.mean(0)
    return x - mean, y - mean


def _blocks(x: FloatArray, y: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
    """Yield rows of x with their squared distances [B, M] to all of y."""
    norms = (y**2).sum(1)
    size = max(1, _BLOCK // len(y))
    for start in range(0, len(x), size):
        rows = x[start : start + size]
        squares = (rows**2).sum(1)[:, None] + norms - 2 * rows @ y.T
        yield slice(start, start + len(rows)), np.maximum(squares, 0.0)


def _radii(x: FloatArray, k: int) -> FloatArray:
    """Return the squared distance [N] of every row to its k-th nearest other row."""
    radii = np.empty(len(x))
    for rows, squares in _blocks(x, x):
        own = np.arange(rows.start, rows.stop)
        squares[own - rows.start, own] = np.inf
        radii[rows] = np.partition(squares, k - 1, axis=1)[:, k - 1]
    return radii


def _counts(
    x: FloatArray, y: FloatArray, x_radii: FloatArray, y_radii: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the number of real balls around every generated image, and per real image 1 or 0: it lies in a generated
    ball; its own ball contains a generated image."""
    inside = np.zeros(len(y), np.int64)
    found, covered = np.empty(len(x)), np.empty(len(x))
    for rows, squares in _blocks(x, y):
        within = squares <= x_radii[rows, None]
        inside += within.sum(0)
        covered[rows] = within.any(1)
        found[rows] = (squares <= y_radii).any(1)
    return inside, found, covered


def _share(hits: ArrayLike, tail: float) -> Interval:
    values = np.asarray(hits, np.float64)
    return Interval(float(values.mean()), *clopper_pearson_bounds(float(values.mean()), len(values), tail))


def _mean(values: FloatArray, tail: float) -> Interval:
    value, reach = float(values.mean()), -float(ndtri(tail)) * float(values.std(ddof=1)) / sqrt(len(values))
    return Interval(value, max(0.0, value - reach), value + reach)
