"""AUROC where inliers come with shifted copies of themselves, and the generalizability score, with their intervals.

An image and its shifted copies are one cluster: the variance is DeLong's for clustered data (Obuchowski 1997), in which
the structural component of a cluster is the mean over its members. It is written as the influence of every image, so
that differences, and means over tests that share images, have theirs by adding up (infinitesimal jackknife).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from math import ceil, sqrt
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
    """An AUROC or another share, or a difference of two, with what every image adds to its error."""

    value: float
    influence: FloatArray
    """By image: its squares add up to the variance."""
    pairs: int
    """Disjoint pairs of an inlier and an outlier, for the bounds where all pairs behave alike."""

    def __add__(self, other: Estimate) -> Estimate:
        """The sum of two estimates on the same images."""
        return Estimate(self.value + other.value, self.influence + other.influence, min(self.pairs, other.pairs))

    def __sub__(self, other: Estimate) -> Estimate:
        """The difference of two estimates on the same images."""
        return Estimate(self.value - other.value, self.influence - other.influence, min(self.pairs, other.pairs))

    def __truediv__(self, number: int) -> Estimate:
        return replace(self, value=self.value / number, influence=self.influence / number)

    @property
    def error(self) -> float:
        """The standard error; 0 where it cannot be estimated: all pairs behave alike, or a side is a single image."""
        return sqrt(float(self.influence @ self.influence)) if self.pairs > 1 else 0.0

    def share(self, level: float = 0.95) -> Interval:
        """As an AUROC, with its interval on the logit scale (as `auroc_interval`)."""
        tail = (1 - as_fraction(level, "level")) / 2
        if self.error > 0 and 0 < self.value < 1:
            return Interval(self.value, *logit_bounds(self.value, self.error, tail))
        return Interval(self.value, *clopper_pearson_bounds(self.value, self.pairs, tail))

    def difference(self, level: float = 0.95) -> Comparison:
        """As a difference of two AUROCs, with its interval (as `paired_test`)."""
        tail = (1 - as_fraction(level, "level")) / 2
        if self.error > 0:
            return normal_comparison(self.value, self.error, tail)
        return constant_comparison(self.value, self.pairs, tail)

    def among(self, places: ArrayLike, total: int) -> Estimate:
        """The same with the influence by place among all images of several tests."""
        influence = np.zeros(total)
        influence[np.asarray(places)] = self.influence
        return replace(self, influence=influence)


@dataclass(frozen=True)
class Counts:
    """How one copy of every inlier stands to the outliers and to a threshold; counts of several copies add up."""

    above: IntArray
    """By inlier, twice the outliers above its copies; ties count half."""
    below: IntArray
    """By outlier, twice the copies below."""
    beyond: IntArray
    """By inlier, its copies above the threshold."""
    copies: int = 1

    @staticmethod
    def of(inliers: ArrayLike, outliers: ArrayLike, threshold: float = np.inf) -> Counts:
        """Of these scores; larger = more outlying."""
        x, y = as_scores(inliers, "inlier"), as_scores(outliers, "outlier")
        x_sorted, y_sorted = np.sort(x), np.sort(y)
        above = 2 * len(y) - np.searchsorted(y_sorted, x, "left") - np.searchsorted(y_sorted, x, "right")
        below = np.searchsorted(x_sorted, y, "left") + np.searchsorted(x_sorted, y, "right")
        return Counts(above, below, (x > threshold).astype(np.int64))

    def __add__(self, other: Counts) -> Counts:
        """Both with other copies of the same inliers."""
        above, below, beyond = self.above + other.above, self.below + other.below, self.beyond + other.beyond
        return Counts(above, below, beyond, self.copies + other.copies)

    def auroc(self) -> Estimate:
        """AUROC of the outliers against all copies, with the influence of the inliers and then of the outliers."""
        n, m = len(self.above), len(self.below)
        value = int(self.below.sum()) / (2 * self.copies * n * m)
        influence = np.concatenate(
            [_influence(self.above, 2 * self.copies * m), _influence(self.below, 2 * self.copies * n)]
        )
        return Estimate(value, influence, min(n, m))

    def flagged(self) -> Estimate:
        """The share of copies above the threshold, with the influence of the inliers."""
        n = len(self.beyond)
        return Estimate(int(self.beyond.sum()) / (self.copies * n), _influence(self.beyond, self.copies), n)


def setup_auroc(inliers: ArrayLike, outliers: ArrayLike, shifted: Iterable[ArrayLike] = ()) -> Estimate:
    """AUROC of the outliers Y against the inliers X' and all their shifted copies, Y ∪ X' ∪ T(X') of ROOD.

    `shifted`: for every shift the scores of the same inliers in the same order, [T, n]. The influence is by image:
    the inliers, then the outliers.
    """
    x = as_scores(inliers, "inlier")
    copies = (Counts.of(_aligned(scores, len(x)), outliers) for scores in shifted)
    return reduce(add, copies, Counts.of(x, outliers)).auroc()


def copied_auroc(inliers: ArrayLike, outliers: ArrayLike, places: ArrayLike) -> Estimate:
    """AUROC of outliers that are changed copies of inliers, as attacked images are: outlier k of inlier places[k].

    An image and its copies are one cluster. The influence is by inlier: what it adds as itself and as its copies.
    """
    both, where = Counts.of(inliers, outliers).auroc(), np.asarray(places)
    total = len(both.influence) - len(where)
    if total != len(as_scores(inliers, "inlier")) or (where.size and not 0 <= where.min() <= where.max() < total):
        raise ValueError(f"got {len(where)} places of outliers, expected that of every one among the inliers")
    influence = both.influence[:total].copy()
    np.add.at(influence, where, both.influence[total:])
    return replace(both, influence=influence)


def generalizability(inliers: ArrayLike, outliers: ArrayLike, shifted: Iterable[ArrayLike]) -> Interval:
    """GS of ROOD (eq. 2) in points with its interval: AUROC with shifted inliers among the inliers minus without."""
    return points(setup_auroc(inliers, outliers, shifted) - setup_auroc(inliers, outliers))


def points(difference: Estimate) -> Interval:
    """A difference of two AUROCs in points, with its interval."""
    found = difference.difference()
    return Interval(100 * found.difference, 100 * found.low, 100 * found.high)


def mean(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of estimates whose influences are by place among the same images.

    Where no error can be estimated the bounds are those of the test with the fewest pairs: what all tests show has at
    most the probability that this one shows it.
    """
    return reduce(add, estimates) / len(estimates)


def _aligned(scores: ArrayLike, expected: int) -> FloatArray:
    found = as_scores(scores, "shifted inlier")
    if len(found) != expected:
        raise ValueError(
            f"got {len(found)} scores of shifted inliers for {expected} inliers, expected as many: the same images in "
            "the same order"
        )
    return found


def _influence(counts: IntArray, most: int) -> FloatArray:
    """Deviations of the shares counts / most from their mean, scaled so that their squares add up to its variance.

    They are taken of whole numbers: where all are alike, rounding would leave an error that is small but not zero.
    """
    n = len(counts)
    return np.asarray((n * counts - counts.sum()) / (n * most) / sqrt(n * max(n - 1, 1)))


def recall_threshold(inliers: ArrayLike, recall: float = 0.95) -> float:
    """The lowest threshold that keeps this share of the inliers; that of `fpr_at_95_id_recall`."""
    x = np.sort(as_scores(inliers, "inlier"))
    return float(x[ceil(Fraction(str(as_fraction(recall, "recall"))) * len(x)) - 1])
