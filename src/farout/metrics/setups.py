"""AUROC of inliers with shifted copies, and the generalizability score, with their intervals.

An image and its shifted copies are one cluster: the variance is DeLong's for clustered data (Obuchowski 1997), in which
the structural component of a cluster is the mean over its members. It is stored as the influence of every image, so
that influences of differences, and of means over tests that share images, are sums (infinitesimal jackknife).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from math import ceil, hypot, sqrt
from operator import add

import numpy as np
from numpy.typing import ArrayLike

from farout.metrics.counts import FloatArray, IntArray, as_fraction, as_scores
from farout.metrics.intervals import (
    Comparison,
    Interval,
    clopper_pearson_bounds,
    constant_comparison,
    logit_bounds,
    normal_comparison,
)


@dataclass(frozen=True)
class Estimate:
    """Estimate of an AUROC, another fraction, or a difference of two, with the influence of every image."""

    value: float
    influence: FloatArray
    """Influence of each image; the sum of squares is the variance."""
    pairs: int
    """Number of disjoint pairs of an inlier and an outlier, for the bounds if the variance is 0."""

    def __add__(self, other: Estimate) -> Estimate:
        """Return the sum of two estimates on the same images."""
        return Estimate(self.value + other.value, self.influence + other.influence, min(self.pairs, other.pairs))

    def __sub__(self, other: Estimate) -> Estimate:
        """Return the difference of two estimates on the same images."""
        return Estimate(self.value - other.value, self.influence - other.influence, min(self.pairs, other.pairs))

    def __truediv__(self, number: int) -> Estimate:
        return replace(self, value=self.value / number, influence=self.influence / number)

    @property
    def error(self) -> float:
        """Standard error; 0 if it cannot be estimated: all pairs are equal, or a side has a single image."""
        return sqrt(float(np.square(self.influence).sum())) if self.pairs > 1 else 0.0

    def share(self, level: float = 0.95) -> Interval:
        """Return the estimate of an AUROC with its interval on the logit scale (as in `auroc_interval`)."""
        tail = (1 - as_fraction(level, "level")) / 2
        if self.error > 0 and 0 < self.value < 1:
            return Interval(self.value, *logit_bounds(self.value, self.error, tail))
        return Interval(self.value, *clopper_pearson_bounds(self.value, self.pairs, tail))

    def difference(self, level: float = 0.95) -> Comparison:
        """Return the estimate of a difference of two AUROCs with its interval (as in `paired_test`)."""
        tail = (1 - as_fraction(level, "level")) / 2
        if self.error > 0:
            return normal_comparison(self.value, self.error, tail)
        return constant_comparison(self.value, self.pairs, tail)

    def among(self, places: ArrayLike, total: int) -> Estimate:
        """Return the estimate with the influence indexed by all images of several tests."""
        influence = np.zeros(total)
        influence[np.asarray(places)] = self.influence
        return replace(self, influence=influence)


@dataclass(frozen=True)
class Counts:
    """Comparisons of one copy of every inlier with the outliers and a threshold; counts of copies can be added."""

    above: IntArray
    """Per inlier, twice the number of outliers above its copies; ties count half."""
    below: IntArray
    """Per outlier, twice the number of copies below."""
    beyond: IntArray
    """Per inlier, the number of its copies above the threshold."""
    copies: int = 1

    @staticmethod
    def of(inliers: ArrayLike, outliers: ArrayLike, threshold: float = np.inf) -> Counts:
        """Count these scores; larger = more outlying."""
        x, y = as_scores(inliers, "inlier"), as_scores(outliers, "outlier")
        x_sorted, y_sorted = np.sort(x), np.sort(y)
        above = 2 * len(y) - np.searchsorted(y_sorted, x, "left") - np.searchsorted(y_sorted, x, "right")
        below = np.searchsorted(x_sorted, y, "left") + np.searchsorted(x_sorted, y, "right")
        return Counts(above, below, (x > threshold).astype(np.int64))

    def __add__(self, other: Counts) -> Counts:
        """Add the counts of other copies of the same inliers."""
        above, below, beyond = self.above + other.above, self.below + other.below, self.beyond + other.beyond
        return Counts(above, below, beyond, self.copies + other.copies)

    def auroc(self) -> Estimate:
        """Return the AUROC of the outliers against all copies, with the influence of the inliers, then the outliers."""
        n, m = len(self.above), len(self.below)
        value = int(self.below.sum()) / (2 * self.copies * n * m)
        influence = np.concatenate(
            [_influence(self.above, 2 * self.copies * m), _influence(self.below, 2 * self.copies * n)]
        )
        return Estimate(value, influence, min(n, m))

    def flagged(self) -> Estimate:
        """Return the fraction of copies above the threshold, with the influence of the inliers."""
        n = len(self.beyond)
        return Estimate(int(self.beyond.sum()) / (self.copies * n), _influence(self.beyond, self.copies), n)


def setup_auroc(inliers: ArrayLike, outliers: ArrayLike, shifted: Iterable[ArrayLike] = ()) -> Estimate:
    """Return the AUROC of the outliers Y against the inliers X' and all their shifted copies, Y ∪ X' ∪ T(X') of ROOD.

    `shifted`: for every shift the scores of the same inliers in the same order, [T, n]. The influence is per image:
    the inliers, then the outliers.
    """
    x = as_scores(inliers, "inlier")
    copies = (Counts.of(_aligned(scores, len(x)), outliers) for scores in shifted)
    return reduce(add, copies, Counts.of(x, outliers)).auroc()


def copied_auroc(inliers: ArrayLike, outliers: ArrayLike, places: ArrayLike) -> Estimate:
    """Return the AUROC of outliers that are changed copies of inliers, such as attacked images: outlier k of places[k].

    An image and its copies are one cluster. The influence is per inlier, the sum over the image and its copies.
    """
    both, where = Counts.of(inliers, outliers).auroc(), np.asarray(places)
    total = len(both.influence) - len(where)
    if total != len(as_scores(inliers, "inlier")) or (where.size and not 0 <= where.min() <= where.max() < total):
        raise ValueError(f"got {len(where)} indices of inliers for the outliers, expected a valid one for each")
    influence = both.influence[:total].copy()
    np.add.at(influence, where, both.influence[total:])
    return replace(both, influence=influence)


def generalizability(inliers: ArrayLike, outliers: ArrayLike, shifted: Iterable[ArrayLike]) -> Interval:
    """Return the GS of ROOD (eq. 2) in points with its interval: AUROC with shifted inliers minus AUROC without."""
    return points(setup_auroc(inliers, outliers, shifted) - setup_auroc(inliers, outliers))


def independent_difference(a: Estimate, b: Estimate, level: float = 0.95) -> Interval:
    """Return the difference of two AUROCs of different images, a minus b, with its interval.

    The variances add up. If one of them is 0, as for fully separated scores, the bounds of both are combined, which is
    at least as wide.
    """
    d, tail = a.value - b.value, (1 - as_fraction(level, "level")) / 2
    if a.error > 0 and b.error > 0:
        found = normal_comparison(d, hypot(a.error, b.error), tail)
        return Interval(d, found.low, found.high)
    x, y = a.share(level), b.share(level)
    return Interval(d, x.low - y.high, x.high - y.low)


def points(difference: Estimate) -> Interval:
    """Return a difference of two AUROCs in points, with its interval."""
    values = difference.difference()
    return Interval(100 * values.difference, 100 * values.low, 100 * values.high)


def mean(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean of estimates with influences on the same images.

    If no error can be estimated, the bounds are those of the test with the fewest pairs: the probability that all tests
    have this outcome is at most that of one of them.
    """
    return reduce(add, estimates) / len(estimates)


def _aligned(scores: ArrayLike, expected: int) -> FloatArray:
    values = as_scores(scores, "shifted inlier")
    if len(values) != expected:
        raise ValueError(
            f"got {len(values)} scores of shifted inliers for {expected} inliers, expected one each: the same images "
            "in the same order"
        )
    return values


def _influence(counts: IntArray, most: int) -> FloatArray:
    """Return deviations of counts / most from their mean, scaled so that the sum of squares is the mean's variance.

    Computed from integers: rounding errors would make the variance of equal counts small but not zero.
    """
    n = len(counts)
    return np.asarray((n * counts - counts.sum()) / (n * most) / sqrt(n * max(n - 1, 1)))


def recall_threshold(inliers: ArrayLike, recall: float = 0.95) -> float:
    """Return the lowest threshold that accepts this fraction of the inliers, as in `fpr_at_95_id_recall`."""
    x = np.sort(as_scores(inliers, "inlier"))
    return float(x[ceil(Fraction(str(as_fraction(recall, "recall"))) * len(x)) - 1])
