"""AUROC where inliers come with shifted copies of themselves, and the generalizability score, with their intervals.

An image and its shifted copies are one cluster: the variance is DeLong's for clustered data (Obuchowski 1997), in which
the structural component of a cluster is the mean over its members. It is written as the influence of every image, so
that differences, and means over tests that share images, have theirs by adding up (infinitesimal jackknife).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import ceil, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from farout.metrics.counts import FloatArray, as_fraction, as_scores
from farout.metrics.intervals import (
    Comparison,
    Interval,
    clopper_pearson_bounds,
    constant_comparison,
    logit_bounds,
    normal_comparison,
)


class Estimate(NamedTuple):
    """An AUROC, or a difference of two, with what every image adds to its error."""

    value: float
    influence: FloatArray
    """By image: its squares add up to the variance."""
    pairs: int
    """Disjoint pairs of an inlier and an outlier, for the bounds where all pairs behave alike."""

    def __sub__(self, other: Estimate) -> Estimate:
        """The difference of two estimates on the same images."""
        return Estimate(self.value - other.value, self.influence - other.influence, min(self.pairs, other.pairs))

    @property
    def error(self) -> float:
        """The standard error; 0 where it cannot be estimated because all pairs behave alike."""
        return sqrt(float(self.influence @ self.influence))

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
        return self._replace(influence=influence)


def setup_auroc(inliers: ArrayLike, outliers: ArrayLike, shifted: Iterable[ArrayLike] = ()) -> Estimate:
    """AUROC of the outliers Y against the inliers X' and all their shifted copies, Y ∪ X' ∪ T(X') of ROOD.

    `shifted`: for every shift the scores of the same inliers in the same order, [T, n]. The influence is by image:
    the inliers, then the outliers.
    """
    x, y = as_scores(inliers, "inlier"), as_scores(outliers, "outlier")
    every = np.stack([x, *(_aligned(scores, len(x)) for scores in shifted)])
    ordered, flat = np.sort(y), np.sort(every, axis=None)
    above = 2 * len(y) - np.searchsorted(ordered, every, "left") - np.searchsorted(ordered, every, "right")
    below = np.searchsorted(flat, y, "left") + np.searchsorted(flat, y, "right")
    value = int(below.sum()) / (2 * every.size * len(y))
    components = (above.mean(0) / (2 * len(y)), below / (2 * every.size))
    pairs = min(len(x), len(y))
    influence = [_influence(part, value) if pairs > 1 else np.zeros(len(part)) for part in components]
    return Estimate(value, np.concatenate(influence), pairs)


def generalizability(inliers: ArrayLike, outliers: ArrayLike, shifted: Iterable[ArrayLike]) -> Interval:
    """GS of ROOD (eq. 2) in points with its interval: AUROC with shifted inliers among the inliers minus without."""
    found = (setup_auroc(inliers, outliers, shifted) - setup_auroc(inliers, outliers)).difference()
    return Interval(100 * found.difference, 100 * found.low, 100 * found.high)


def mean(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of estimates whose influences are by place among the same images."""
    value = float(np.mean([one.value for one in estimates]))
    influence = np.sum([one.influence for one in estimates], axis=0) / len(estimates)
    return Estimate(value, influence, max(one.pairs for one in estimates))


def _aligned(scores: ArrayLike, expected: int) -> FloatArray:
    found = as_scores(scores, "shifted inlier")
    if len(found) != expected:
        raise ValueError(
            f"got {len(found)} scores of shifted inliers for {expected} inliers, expected as many: the same images in "
            "the same order"
        )
    return found


def _influence(components: FloatArray, value: float) -> FloatArray:
    """Deviations from the value, scaled so that their squares add up to the variance of the mean."""
    count = len(components)
    return np.asarray((components - value) / sqrt(count * (count - 1)))


def flagged_share(inliers: ArrayLike, shifted: Iterable[ArrayLike], *, recall: float = 0.95) -> Estimate:
    """The share of shifted inliers above the threshold that keeps 95 % of the inliers as they are.

    The threshold is that of `fpr_at_95_id_recall`, and is taken as given: its own error is not in the influence, which
    is by inlier.
    """
    x = np.sort(as_scores(inliers, "inlier"))
    threshold = x[ceil(Fraction(str(as_fraction(recall, "recall"))) * len(x)) - 1]
    above = np.stack([_aligned(scores, len(x)) for scores in shifted]) > threshold
    value = float(above.mean())
    influence = _influence(above.mean(0), value) if len(x) > 1 else np.zeros(1)
    return Estimate(value, influence, len(x))
