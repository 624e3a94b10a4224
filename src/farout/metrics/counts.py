"""Validation of scores, and the table of counts by distinct score, from which every threshold metric is computed."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Counts(NamedTuple):
    """Counts of the K distinct scores of both sides, in ascending order, for R samples of the same size."""

    inliers: IntArray  # [R, K]
    outliers: IntArray  # [R, K]

    @property
    def n(self) -> int:
        """Number of inlier scores."""
        return int(self.inliers[0].sum())

    @property
    def m(self) -> int:
        """Number of outlier scores."""
        return int(self.outliers[0].sum())

    def descending(self) -> "Counts":
        """Return the table from the largest score down."""
        return Counts(self.inliers[:, ::-1], self.outliers[:, ::-1])


def as_scores(scores: ArrayLike, side: str) -> FloatArray:
    """Return scores as a float64 vector; raise an error, which names them by `side`, unless all are finite."""
    try:
        array = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{side} scores of type {type(scores).__name__} cannot be read as an array of numbers ({error}); "
            "pass a list, an array or a detached float tensor on the CPU"
        ) from error
    if array.ndim != 1:
        raise ValueError(
            f"{side} scores have shape {array.shape}, expected one dimension with one score per image; "
            "flatten them or select one column"
        )
    if array.size == 0:
        raise ValueError(
            f"got 0 {side} scores, expected at least one; check that the set and its limit select any images"
        )
    _require_finite(array, side)
    return array


def _require_finite(array: FloatArray, side: str) -> None:
    bad = array.size - np.count_nonzero(np.isfinite(array))
    if bad:
        nans = np.count_nonzero(np.isnan(array))
        raise ValueError(
            f"{bad} of {array.size} {side} scores are not finite ({nans} NaN, {bad - nans} infinite), "
            "expected finite numbers; find the images with such scores and fix the detector"
        )


def as_fraction(value: float, name: str) -> float:
    """Return the value if it is in (0, 1], such as a recall or a confidence level; else raise an error."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise ValueError(f"{name} is {value!r}, expected a fraction above 0 and at most 1; pass for example 0.95")
    if not 0 < value <= 1:
        hint = f"use {value / 100:g} instead of {value:g}" if 1 < value <= 100 else "pass for example 0.95"
        raise ValueError(f"{name} is {value:g}, expected a fraction above 0 and at most 1; {hint}")
    return float(value)


def distinct_scores(inliers: FloatArray, outliers: FloatArray) -> FloatArray:
    """Return the distinct values of two sorted vectors, ascending."""
    merged = np.sort(np.concatenate([inliers, outliers]), kind="stable")  # merges the two runs in linear time
    first: FloatArray = merged[np.append(True, merged[1:] != merged[:-1])]
    return first


def tabulate(inliers: ArrayLike, outliers: ArrayLike) -> Counts:
    """Return the table of one sample, R = 1."""
    x, y = np.sort(as_scores(inliers, "inlier")), np.sort(as_scores(outliers, "outlier"))
    distinct = distinct_scores(x, y)
    return Counts(_counted(x, distinct), _counted(y, distinct))


def _counted(scores: FloatArray, distinct: FloatArray) -> IntArray:
    return np.diff(np.searchsorted(scores, distinct), append=scores.size)[None]
