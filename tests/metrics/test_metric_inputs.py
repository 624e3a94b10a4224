"""What the metrics accept, and what their errors say."""

import numpy as np
import pytest

from farout.metrics import (
    aupr,
    auroc,
    auroc_interval,
    bootstrap_interval,
    detection_accuracy,
    fpr_at_95_id_recall,
    fpr_at_95_ood_recall,
    generalizability_score,
    min_rank,
    overlap,
    paired_test,
)
from farout.metrics.counts import tabulate

FUNCTIONS = [
    auroc,
    aupr,
    auroc_interval,
    fpr_at_95_id_recall,
    fpr_at_95_ood_recall,
    detection_accuracy,
    min_rank,
    overlap,
    lambda inliers, outliers: bootstrap_interval(auroc, inliers, outliers, resamples=2),
    lambda inliers, outliers: paired_test(inliers, outliers, inliers, outliers),
]
BAD = {
    "empty": ([], r"got 0 {side}.* scores, expected at least one; check"),
    "matrix": ([[1.0], [2.0]], r"{side}.* scores have shape \(2, 1\), expected one dimension.*; flatten"),
    "scalar": (1.0, r"{side}.* scores have shape \(\), expected one dimension"),
    "not finite": ([1.0, np.nan, np.inf, np.nan], r"3 of 4 {side}.* \(2 NaN, 1 infinite\), expected finite"),
    "words": (["far", "out"], r"{side}.* scores of type list cannot be read.*; pass a list"),
    "ragged": ([[1.0], [2.0, 3.0]], r"{side}.* scores of type list cannot be read"),
}
GOOD = [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_bad_scores_are_refused_by_side(function, name):
    scores, message = BAD[name]
    with pytest.raises(ValueError, match=message.format(side="inlier")):
        function(scores, GOOD)
    with pytest.raises(ValueError, match=message.format(side="outlier")):
        function(GOOD, scores)


class Tensor:
    """Stands in for any array type that numpy can convert."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)


class OnGraph:
    """Refuses conversion as a tensor that requires a gradient does."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("Use tensor.detach()")


@pytest.mark.parametrize("kind", [list, tuple, Tensor, np.float16, np.int8, np.float32])
def test_any_vector_is_read(kind):
    assert auroc(kind([1, 2, 3]), kind([2, 3, 4])) == 7 / 9


def test_a_refused_conversion_says_what_to_do():
    with pytest.raises(ValueError, match=r"inlier scores of type OnGraph .*detach.*; pass .*detached") as caught:
        auroc(OnGraph(), GOOD)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_scores_are_left_as_they_were():
    inliers, outliers = np.array([3.0, 1.0, 2.0]), np.array([5.0, 4.0])
    for function in FUNCTIONS:
        function(inliers, outliers)
    assert inliers.tolist() == [3.0, 1.0, 2.0]
    assert outliers.tolist() == [5.0, 4.0]


def test_the_table_counts_each_distinct_score():
    counts = tabulate([2, 1, 2], [3, 2])
    assert (counts.n, counts.m) == (3, 2)
    assert [side.tolist() for side in counts] == [[[1, 2, 0]], [[0, 1, 1]]]
    assert [side.tolist() for side in counts.descending()] == [[[0, 2, 1]], [[1, 1, 0]]]


@pytest.mark.parametrize("function", [fpr_at_95_id_recall, fpr_at_95_ood_recall])
@pytest.mark.parametrize(
    ("recall", "message"),
    [
        (95, "recall is 95, expected a fraction .*; use 0.95 instead of 95"),
        (0.0, "recall is 0, expected a fraction above 0"),
        (-0.5, "recall is -0.5"),
        (float("nan"), "recall is nan"),
        (950, "recall is 950, .*; pass for example 0.95"),
    ],
)
def test_recall_is_a_fraction(function, recall, message):
    with pytest.raises(ValueError, match=message):
        function(GOOD, GOOD, recall=recall)


def test_level_is_a_fraction():
    message = "level is 95, .*; use 0.95 instead of 95"
    with pytest.raises(ValueError, match=message):
        auroc_interval(GOOD, GOOD, level=95)
    with pytest.raises(ValueError, match=message):
        bootstrap_interval(auroc, GOOD, GOOD, level=95)
    with pytest.raises(ValueError, match=message):
        paired_test(GOOD, GOOD, GOOD, GOOD, level=95)


def test_other_arguments():
    with pytest.raises(ValueError, match='positive is \'ood\', expected "outlier" or "inlier"'):
        aupr(GOOD, GOOD, positive="ood")
    with pytest.raises(ValueError, match="resamples is 0, expected a whole number of at least 1"):
        bootstrap_interval(auroc, GOOD, GOOD, resamples=0)
    with pytest.raises(ValueError, match=r"auroc_setup is 75.44, .*; use 0.7544 instead of 75.44"):
        generalizability_score(75.44, 0.5)
    with pytest.raises(ValueError, match="auroc_unshifted is nan, expected an AUROC between 0 and 1"):
        generalizability_score(0.5, float("nan"))


def test_paired_detectors_must_have_scored_the_same_images():
    with pytest.raises(ValueError, match=r"got 4 inlier scores of detector a but 3 of detector b.*same images"):
        paired_test(GOOD, GOOD, GOOD[:3], GOOD)
    with pytest.raises(ValueError, match="got 2 outlier scores of detector a but 4 of detector b"):
        paired_test(GOOD, GOOD[:2], GOOD, GOOD)
