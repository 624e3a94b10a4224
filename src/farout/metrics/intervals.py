"""Confidence intervals: of means, of the AUROC, and of the difference of two detectors (DeLong et al. 1988)."""

from math import erfc, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, expit, logit, ndtri, stdtrit

from farout.metrics.counts import FloatArray, IntArray, as_fraction, as_scores


class Interval(NamedTuple):
    """Estimate with its confidence interval."""

    value: float
    low: float
    high: float


class Comparison(NamedTuple):
    """Difference of the AUROCs of detectors a and b, with its confidence interval and two-sided p-value."""

    difference: float
    low: float
    high: float
    p_value: float


def mean_interval(values: ArrayLike, *, level: float = 0.95) -> Interval:
    """Return the mean of values, such as the SSIM or LPIPS of images, with its interval by Student's t.

    A single value has no bounds (NaN).
    """
    x, tail = as_scores(values, "mean"), (1 - as_fraction(level, "level")) / 2
    mean = float(x.mean())
    if x.size == 1:
        return Interval(mean, float("nan"), float("nan"))
    reach = float(stdtrit(x.size - 1, 1 - tail)) * float(x.std(ddof=1)) / sqrt(x.size)
    return Interval(mean, mean - reach, mean + reach)


def auroc_interval(inliers: ArrayLike, outliers: ArrayLike, *, level: float = 0.95) -> Interval:
    """Return the AUROC with DeLong's interval, computed on the logit scale, which keeps it within [0, 1].

    Structural components come from ranks in O(n log n) (Sun & Xu 2014). DeLong's variance is zero when the sides
    are fully separated or all scores tie, and undefined for a single score; then the interval is Clopper and Pearson's
    for k = min(n, m) trials. It is distribution-free: full separation orders k disjoint pairs correctly, which has
    probability at most AUROC^k, and some distributions attain that bound.

    Coverage on Gaussian scores is near `level` from about 20 scores per side on. It is lower, about 0.86 for 0.95, if
    one side is much smaller and hardly any of its scores is misplaced (10 against 200 at AUROC 0.95).
    """
    x = np.sort(as_scores(inliers, "inlier"))  # lookups of sorted scores are several times faster
    y = np.sort(as_scores(outliers, "outlier"))
    tail = (1 - as_fraction(level, "level")) / 2
    placements = _placements(x, y)
    value = _mean(placements)
    variance = _variance(placements)
    if variance > 0:
        return Interval(value, *logit_bounds(value, sqrt(variance), tail))
    return Interval(value, *clopper_pearson_bounds(value, min(x.size, y.size), tail))


def _placements(x: FloatArray, y: FloatArray) -> tuple[IntArray, IntArray]:
    """Return per inlier twice the number of outliers above it, per outlier twice the inliers below; ties count half.

    Divided by 2m and 2n they are the structural components V10 and V01 of DeLong et al.
    """
    x_sorted, y_sorted = np.sort(x), np.sort(y)
    above = 2 * y.size - np.searchsorted(y_sorted, x, "left") - np.searchsorted(y_sorted, x, "right")
    below = np.searchsorted(x_sorted, y, "left") + np.searchsorted(x_sorted, y, "right")
    return above, below


def _mean(placements: tuple[IntArray, IntArray]) -> float:
    above, below = placements
    return int(below.sum()) / (2 * above.size * below.size)


def _variance(placements: tuple[IntArray, IntArray]) -> float:
    """Return S10 / n + S01 / m; 0 if one side has a single score, where it cannot be estimated."""
    above, below = placements
    n, m = above.size, below.size
    if min(n, m) == 1:
        return 0.0
    return float(above.var(ddof=1) / (4 * m**2 * n) + below.var(ddof=1) / (4 * n**2 * m))


def logit_bounds(value: float, error: float, tail: float) -> tuple[float, float]:
    """Return bounds of a fraction with this standard error, computed on the logit scale, which keeps them in [0, 1]."""
    reach = -float(ndtri(tail)) * error / (value * (1 - value))
    return float(expit(logit(value) - reach)), float(expit(logit(value) + reach))


def clopper_pearson_bounds(value: float, trials: int, tail: float) -> tuple[float, float]:
    """Return exact bounds of a rate from `value * trials` hits (Clopper and Pearson 1934)."""
    hits = value * trials
    low = float(betaincinv(hits, trials - hits + 1, tail)) if value > 0 else 0.0
    high = float(betaincinv(hits + 1, trials - hits, 1 - tail)) if value < 1 else 1.0
    return low, high


def paired_test(
    inliers_a: ArrayLike,
    outliers_a: ArrayLike,
    inliers_b: ArrayLike,
    outliers_b: ArrayLike,
    *,
    level: float = 0.95,
) -> Comparison:
    """Return DeLong's test of two detectors, or two versions of one, with scores of the same images in the same order.

    `paired_test(old(inliers), old(outliers), new(inliers), new(outliers))`: `difference` is the AUROC of the first
    minus that of the second, with interval `low` to `high`; it is significant if `p_value` is below 0.05. Since both
    scored the same images, the test detects far smaller differences than a comparison of the two AUROC intervals.

    The variance of the difference, Var a + Var b − 2 Cov, is that of the differences of structural components.
    It is zero if all pairs have the same difference d: equal scores, or both detectors separate or tie everything.
    Then, by k = min(n, m) disjoint pairs, at most a fraction q = 1 − (½(1 − level))^(1/k) of all pairs has another
    difference. This gives d − q(1 + d) to d + q(1 − d) and, by duality, p = 2 (1 + |d|)^−k, at most 1. A side with a
    single score, whose variance is undefined, is treated in the same way.
    """
    tail = (1 - as_fraction(level, "level")) / 2
    a = _placements(as_scores(inliers_a, "inlier a"), as_scores(outliers_a, "outlier a"))
    b = _placements(as_scores(inliers_b, "inlier b"), as_scores(outliers_b, "outlier b"))
    _require_same_images(a, b)
    differences = (a[0] - b[0], a[1] - b[1])
    d = _mean(differences)
    variance = _variance(differences)
    if variance > 0:
        return normal_comparison(d, sqrt(variance), tail)
    return constant_comparison(d, min(map(len, differences)), tail)


def _require_same_images(a: tuple[IntArray, IntArray], b: tuple[IntArray, IntArray]) -> None:
    for side, of_a, of_b in zip(("inlier", "outlier"), a, b, strict=True):
        if of_a.size != of_b.size:
            raise ValueError(
                f"got {of_a.size} {side} scores of detector a but {of_b.size} of detector b, expected the same number; "
                "score the same images, in the same order, with both"
            )


def normal_comparison(d: float, error: float, tail: float) -> Comparison:
    """Return the comparison for a difference d of AUROCs with this standard error."""
    reach = -float(ndtri(tail)) * error
    return Comparison(d, max(-1.0, d - reach), min(1.0, d + reach), erfc(abs(d) / error / sqrt(2)))


def constant_comparison(d: float, pairs: int, tail: float) -> Comparison:
    """Return the comparison for a difference d of all pairs, `pairs` of them disjoint; see `paired_test`."""
    q = 1 - tail ** (1 / pairs)
    return Comparison(d, d - q * (1 + d), d + q * (1 - d), min(1.0, 2 * (1 + abs(d)) ** -pairs))
