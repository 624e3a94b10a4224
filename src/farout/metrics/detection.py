"""Metrics of the separation of outliers from inliers. Larger scores are more outlying; inlier scores come first.

A threshold metric depends on the scores only through their order and ties. Each is implemented once, as a function
of the count table with one value per row, which the public function below it and the bootstrap use.
"""

from fractions import Fraction
from functools import cache
from math import ceil
from types import ModuleType
from typing import Literal

from numpy.typing import ArrayLike

from farout.metrics.counts import Counts, FloatArray, IntArray, as_fraction, tabulate

Side = Literal["outlier", "inlier"]


def _curves() -> ModuleType:
    from farout.metrics import curves  # numba is slow to import

    return curves


def _fraction(part: IntArray | FloatArray, whole: int) -> FloatArray:
    fraction: FloatArray = part / whole
    return fraction


def auroc_of(counts: Counts) -> FloatArray:
    return _fraction(_curves().twice_u(*counts), 2 * counts.n * counts.m)


def auroc(inliers: ArrayLike, outliers: ArrayLike) -> float:
    """Return the area under the ROC curve: P(outlier score > inlier score) + ½ P(equal), the Mann-Whitney U over n·m.

    Computed from integer counts, hence exact with ties and invariant under any strictly increasing map of the scores.
    """
    return float(auroc_of(tabulate(inliers, outliers))[0])


def aupr_of(counts: Counts, *, positive: Side = "outlier") -> FloatArray:
    if positive == "outlier":
        inliers, outliers = counts.descending()
        return _fraction(_curves().summed_precision(outliers, inliers), counts.m)
    if positive == "inlier":
        return _fraction(_curves().summed_precision(*counts), counts.n)
    raise ValueError(f'positive is {positive!r}, expected "outlier" or "inlier", the class to be retrieved')


def aupr(inliers: ArrayLike, outliers: ArrayLike, *, positive: Side = "outlier") -> float:
    """Return the area under the precision-recall curve as average precision, Σ (R_k − R_{k−1}) P_k over thresholds.

    A step function in which tied scores count together, as in scikit-learn's `average_precision_score`. `positive` is
    the class to be retrieved: outliers from the largest score down, or inliers from the smallest score up.
    """
    return float(aupr_of(tabulate(inliers, outliers), positive=positive)[0])


def _false_positive_rate(kept: IntArray, passed: IntArray, recall: float) -> FloatArray:
    """Return the fraction of `passed` at the first threshold that keeps at least `recall` of `kept`."""
    needed = _needed(as_fraction(recall, "recall"), int(kept[0].sum()))
    return _fraction(_curves().passed_with(kept, passed, needed), int(passed[0].sum()))


@cache
def _needed(recall: float, count: int) -> int:
    return ceil(Fraction(str(recall)) * count)  # exact: 0.95 is 19/20


def fpr_at_95_id_recall_of(counts: Counts, *, recall: float = 0.95) -> FloatArray:
    return _false_positive_rate(counts.inliers, counts.outliers, recall)


def fpr_at_95_id_recall(inliers: ArrayLike, outliers: ArrayLike, *, recall: float = 0.95) -> float:
    """Return the fraction of outliers accepted at the threshold that accepts at least 95 % of the inliers.

    A score is accepted when it is <= t, with t the smallest inlier score for which #{inliers <= t} >= 0.95 n.
    Ties at t are all accepted, on both sides. `recall` replaces the 0.95.
    """
    return float(fpr_at_95_id_recall_of(tabulate(inliers, outliers), recall=recall)[0])


def fpr_at_95_ood_recall_of(counts: Counts, *, recall: float = 0.95) -> FloatArray:
    inliers, outliers = counts.descending()
    return _false_positive_rate(outliers, inliers, recall)


def fpr_at_95_ood_recall(inliers: ArrayLike, outliers: ArrayLike, *, recall: float = 0.95) -> float:
    """Return the fraction of inliers flagged at the threshold that flags at least 95 % of the outliers.

    A score is flagged when it is >= t, with t the largest outlier score for which #{outliers >= t} >= 0.95 m.
    Ties at t are all flagged, on both sides. `recall` replaces the 0.95.
    """
    return float(fpr_at_95_ood_recall_of(tabulate(inliers, outliers), recall=recall)[0])


def detection_accuracy_of(counts: Counts) -> FloatArray:
    n, m = counts.n, counts.m
    return _fraction(_curves().best_balance(*counts, n, m), 2 * n * m)


def detection_accuracy(inliers: ArrayLike, outliers: ArrayLike) -> float:
    """Return the best balanced accuracy over all thresholds, max_t ½ (P(inlier <= t) + P(outlier > t)).

    One minus the detection error of Liang et al. 2018 (ODIN); the detection accuracy of Lee et al. 2018
    (Mahalanobis) with equal priors. At least ½, since a threshold may flag everything.
    """
    return float(detection_accuracy_of(tabulate(inliers, outliers))[0])


def min_rank_of(counts: Counts, *, normalized: bool = False) -> FloatArray:
    return _fraction(_curves().below_first(*counts), counts.n if normalized else 1)


def min_rank(inliers: ArrayLike, outliers: ArrayLike, *, normalized: bool = False) -> float:
    """Return the MinRank of EvG: the number of inlier scores strictly below the smallest outlier score.

    Ranks start at zero, so an ideal detector has n, or 1 if `normalized` divides by n.
    """
    return float(min_rank_of(tabulate(inliers, outliers), normalized=normalized)[0])


def generalizability_score(auroc_setup: float, auroc_unshifted: float) -> float:
    """Return the GS of ROOD, eq. 2: AUROC in a setup with shifted inliers minus AUROC without, in percentage points.

    Both AUROCs are in [0, 1] and may be means over classes. Negative: the detector does not generalize.
    """
    for name, value in (("auroc_setup", auroc_setup), ("auroc_unshifted", auroc_unshifted)):
        if not 0 <= value <= 1:
            hint = f"use {value / 100:g} instead of {value:g}" if 1 < value <= 100 else "pass auroc(...)"
            raise ValueError(f"{name} is {value:g}, expected an AUROC between 0 and 1; {hint}")
    return 100 * (float(auroc_setup) - float(auroc_unshifted))
