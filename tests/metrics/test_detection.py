"""Threshold metrics against scikit-learn, closed forms and cases worked out by hand."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from farout.metrics import (
    aupr,
    auroc,
    detection_accuracy,
    fpr_at_95_id_recall,
    fpr_at_95_ood_recall,
    generalizability_score,
    min_rank,
)

METRICS = [auroc, aupr, fpr_at_95_id_recall, fpr_at_95_ood_recall, detection_accuracy, min_rank]
MAPS = {
    "times 1e6": lambda s: s * 1e6,
    "plus 1e6": lambda s: s + 1e6,
    "minus 1e6": lambda s: s - 1e6,
    "cube": lambda s: s**3,
    "exp": lambda s: np.exp(s / 2),
    "float32": lambda s: s.astype(np.float32),
}

many_ties = st.lists(st.integers(-4, 4), min_size=1, max_size=40).map(lambda s: np.array(s, dtype=np.float64))
any_finite = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40).map(np.array)
scores = many_ties | any_finite
recalls = st.sampled_from([0.05, 0.5, 0.8, 0.9, 0.95, 0.99, 1.0])
thorough = settings(deadline=None, max_examples=150)


def joined(inliers, outliers):
    labels = np.r_[np.zeros(len(inliers)), np.ones(len(outliers))]
    return labels, np.r_[inliers, outliers]


def gaussian_quantiles(n, shift=0.0):
    return ndtri((np.arange(n) + 0.5) / n) + shift


@thorough
@given(scores, scores)
def test_auroc_is_the_exact_share_of_ordered_pairs(inliers, outliers):
    x, y = inliers[:, None], outliers[None]
    twice_u = int(np.sum(2 * (y > x) + (y == x)))
    assert auroc(inliers, outliers) == float(Fraction(twice_u, 2 * len(inliers) * len(outliers)))
    assert auroc(inliers, outliers) == pytest.approx(roc_auc_score(*joined(inliers, outliers)), abs=1e-12)


@thorough
@given(scores, scores)
def test_auroc_of_swapped_sides_is_the_complement(inliers, outliers):
    assert auroc(inliers, outliers) == pytest.approx(1 - auroc(outliers, inliers), abs=1e-15)
    assert auroc(inliers, outliers) == auroc(-outliers, -inliers)


@thorough
@given(scores, scores)
def test_aupr_is_the_average_precision_of_scikit_learn(inliers, outliers):
    labels, both = joined(inliers, outliers)
    assert aupr(inliers, outliers) == pytest.approx(average_precision_score(labels, both), abs=1e-12)
    expected = average_precision_score(1 - labels, -both)
    assert aupr(inliers, outliers, positive="inlier") == pytest.approx(expected, abs=1e-12)


@thorough
@given(scores, scores, recalls)
def test_fpr_is_that_of_the_full_roc_curve(inliers, outliers, recall):
    labels, both = joined(inliers, outliers)
    fpr, tpr, _ = roc_curve(labels, both, drop_intermediate=False)
    assert fpr_at_95_ood_recall(inliers, outliers, recall=recall) == fpr[tpr >= recall].min()
    fpr, tpr, _ = roc_curve(1 - labels, -both, drop_intermediate=False)
    assert fpr_at_95_id_recall(inliers, outliers, recall=recall) == fpr[tpr >= recall].min()


@thorough
@given(scores, scores)
def test_detection_accuracy_is_the_best_point_of_the_roc_curve(inliers, outliers):
    fpr, tpr, _ = roc_curve(*joined(inliers, outliers))
    assert detection_accuracy(inliers, outliers) == pytest.approx(np.max(0.5 * (tpr + 1 - fpr)), abs=1e-12)


@thorough
@given(scores, scores)
def test_min_rank_is_searchsorted_left(inliers, outliers):
    expected = np.searchsorted(np.sort(inliers), outliers.min(), side="left")
    assert min_rank(inliers, outliers) == expected
    assert min_rank(inliers, outliers, normalized=True) == expected / len(inliers)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", MAPS)
@given(inliers=many_ties, outliers=many_ties)
@settings(deadline=None, max_examples=20)
def test_increasing_maps_change_nothing(metric, name, inliers, outliers):
    assert metric(MAPS[name](inliers), MAPS[name](outliers)) == metric(inliers, outliers)


@pytest.mark.parametrize("metric", METRICS)
def test_order_of_the_scores_is_irrelevant(metric):
    rng = np.random.default_rng(0)
    inliers, outliers = rng.integers(0, 30, 200), rng.integers(10, 40, 150)
    assert metric(rng.permutation(inliers), rng.permutation(outliers)) == metric(inliers, outliers)


def test_scores_that_a_sigmoid_would_tie_stay_apart():
    assert auroc([1e6, 1e6 + 1e-9], [1e6 + 2e-9, -1e6]) == 0.5
    assert auroc([40.0, 41.0], [42.0, 1e6]) == 1.0
    assert auroc([-1e6, -999999.5], [-999999.75, 1e6]) == 0.75


def test_gaussian_closed_forms():
    d, n = 1.5, 20_000
    inliers, outliers = gaussian_quantiles(n), gaussian_quantiles(n, d)
    assert auroc(inliers, outliers) == pytest.approx(ndtr(d / np.sqrt(2)), abs=1e-4)
    assert detection_accuracy(inliers, outliers) == pytest.approx(ndtr(d / 2), abs=1e-4)
    assert fpr_at_95_id_recall(inliers, outliers) == pytest.approx(ndtr(ndtri(0.95) - d), abs=1e-4)
    assert fpr_at_95_ood_recall(inliers, outliers) == pytest.approx(ndtr(ndtri(0.95) - d), abs=1e-4)
    assert min_rank(inliers, outliers, normalized=True) == pytest.approx(ndtr(outliers[0]), abs=1e-4)


def test_uninformative_scores():
    inliers, outliers = np.zeros(30), np.zeros(10)
    assert auroc(inliers, outliers) == 0.5
    assert aupr(inliers, outliers) == 0.25
    assert aupr(inliers, outliers, positive="inlier") == 0.75
    assert fpr_at_95_id_recall(inliers, outliers) == fpr_at_95_ood_recall(inliers, outliers) == 1.0
    assert detection_accuracy(inliers, outliers) == 0.5
    assert min_rank(inliers, outliers) == 0


def test_perfect_and_reversed_scores():
    inliers, outliers = np.arange(10.0), np.arange(10.0, 16.0)
    assert [m(inliers, outliers) for m in METRICS] == [1.0, 1.0, 0.0, 0.0, 1.0, 10.0]
    assert auroc(outliers, inliers) == 0.0
    assert detection_accuracy(outliers, inliers) == 0.5


def test_fpr_at_id_recall_by_hand():
    inliers = np.arange(1.0, 21.0)  # 19 of 20 are needed, so the threshold is 19
    assert fpr_at_95_id_recall(inliers, [18.0, 19.0, 19.5, 20.0]) == 0.5
    assert fpr_at_95_id_recall(inliers[:19], [18.0, 19.0, 19.5]) == pytest.approx(2 / 3)  # 18.05 round up to 19
    assert fpr_at_95_id_recall(inliers, [4.5, 5.0, 6.0], recall=0.25) == pytest.approx(2 / 3)


def test_fpr_at_ood_recall_by_hand():
    outliers = np.arange(1.0, 21.0)  # 19 of 20 are needed, so the threshold is 2
    assert fpr_at_95_ood_recall([1.0, 1.5, 2.0, 3.0], outliers) == 0.5
    assert fpr_at_95_ood_recall([0.0, 1.0, 1.5], outliers[:19]) == pytest.approx(2 / 3)
    assert fpr_at_95_ood_recall([15.5, 16.0, 17.0], outliers, recall=0.25) == pytest.approx(2 / 3)


def test_fpr_recall_is_taken_as_the_decimal_it_is_written_as():
    inliers = np.arange(50.0)
    assert 0.14 * 50 > 7  # in floating point, which would ask for an eighth inlier
    assert fpr_at_95_id_recall(inliers, [6.0, 6.5], recall=0.14) == 0.5


def test_min_rank_by_hand():
    assert min_rank([1, 2, 2, 3, 5], [4, 3]) == 3
    assert min_rank([1, 2, 2, 3, 5], [2, 9]) == 1
    assert min_rank(np.arange(10_000), [10_000]) == 10_000  # EvG: an ideal detector scores 10,000
    assert min_rank(np.arange(4), [1.5], normalized=True) == 0.5


@pytest.mark.parametrize(
    ("setup", "unshifted", "published"),
    [(69.76, 75.44, -5.68), (66.91, 86.09, -19.18), (48.99, 94.34, -45.35), (83.15, 96.45, -13.30)],
)
def test_generalizability_score_of_table_1(setup, unshifted, published):
    assert generalizability_score(setup / 100, unshifted / 100) == pytest.approx(published, abs=1e-9)
