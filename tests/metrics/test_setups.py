"""AUROC with shifted inliers among the inliers, and generalizability: closed forms, coverage, agreement with DeLong."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest
from scipy.stats import norm

from farout import metrics
from farout.metrics.setups import Counts, Estimate, mean, recall_threshold, setup_auroc

REPEATS = 800
SLACK = 3 * np.sqrt(0.95 * 0.05 / REPEATS) + 0.01
"""Three Monte-Carlo errors of a coverage, and one percent for samples of 60."""
SHIFTS = np.array([0.3, 0.8, 1.5, 0.1])
SPREAD = 0.4
"""Of a copy about its image, whose own spread is 1."""


def drawn(rng: np.random.Generator, n: int = 60, m: int = 80) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inliers N(0, 1), their copies at SHIFTS about them, outliers N(1.5, 1)."""
    inliers = rng.standard_normal(n)
    copies = inliers + SHIFTS[:, None] + SPREAD * rng.standard_normal((len(SHIFTS), n))
    return inliers, rng.standard_normal(m) + 1.5, copies


PLAIN = float(norm.cdf(1.5 / np.sqrt(2)))
TRUE = float((PLAIN + norm.cdf((1.5 - SHIFTS) / np.sqrt(2 + SPREAD**2)).sum()) / (1 + len(SHIFTS)))


def covered(bounds: list[tuple[float, float]], truth: float) -> float:
    low, high = np.array(bounds).T
    return float(((low <= truth) & (truth <= high)).mean())


def test_without_copies_it_is_delongs() -> None:
    inliers, outliers, _ = drawn(np.random.default_rng(0))
    np.testing.assert_allclose(
        setup_auroc(inliers, outliers).share(), metrics.auroc_interval(inliers, outliers), rtol=1e-12
    )


def test_value_is_the_auroc_of_the_union() -> None:
    rng = np.random.default_rng(1)
    inliers, outliers, copies = (rng.integers(0, 6, shape).astype(float) for shape in (40, 30, (3, 40)))  # with ties
    union = np.concatenate([inliers, copies.ravel()])
    assert setup_auroc(inliers, outliers, copies).value == metrics.auroc(union, outliers)
    score = metrics.generalizability_score(metrics.auroc(union, outliers), metrics.auroc(inliers, outliers))
    assert metrics.generalizability(inliers, outliers, copies).value == pytest.approx(score, abs=1e-12)


def test_intervals_cover_where_copies_of_an_image_hang_together() -> None:
    rng = np.random.default_rng(2)
    clustered, scores, naive = [], [], []
    for _ in range(REPEATS):
        inliers, outliers, copies = drawn(rng)
        clustered.append(setup_auroc(inliers, outliers, copies).share()[1:])
        scores.append(metrics.generalizability(inliers, outliers, copies)[1:])
        naive.append(metrics.auroc_interval(np.concatenate([inliers, copies.ravel()]), outliers)[1:])
    assert covered(clustered, TRUE) == pytest.approx(0.95, abs=SLACK)
    assert covered(scores, 100 * (TRUE - PLAIN)) == pytest.approx(0.95, abs=SLACK)
    assert covered(naive, TRUE) < 0.95 - SLACK  # as if copies were images of their own


def test_mean_over_classes_that_share_their_images() -> None:
    """Three classes at 0, 1 and 2 on a line; the detector of each gives the distance to its center."""
    rng = np.random.default_rng(3)
    centers, each, bounds = np.array([0.0, 1.0, 2.0]), 40, []
    values = []
    for _ in range(REPEATS):
        x = (centers[:, None] + rng.standard_normal((3, each))).ravel()
        parts = []
        for label, center in enumerate(centers):
            mine = np.repeat(np.arange(3), each) == label
            scores = np.abs(x - center)
            places = np.concatenate([np.flatnonzero(mine), np.flatnonzero(~mine)])
            parts.append(setup_auroc(scores[mine], scores[~mine]).among(places, len(x)))
        together = mean(parts)
        values.append(together.value)
        bounds.append(together.share()[1:])
    assert covered(bounds, float(np.mean(values))) == pytest.approx(0.95, abs=SLACK)
    assert np.mean([high - low for low, high in bounds]) == pytest.approx(2 * 1.96 * np.std(values), rel=0.1)


def test_flagged_share() -> None:
    inliers = np.arange(100.0)  # 95 of them are at most 94
    copies = np.stack([np.full(100, 94.0), np.full(100, 94.5), np.where(np.arange(100) < 30, 0.0, 200.0)])
    threshold = recall_threshold(inliers)
    found = reduce(add, (Counts.of(scores, [0.0], threshold) for scores in copies)).flagged()
    assert found.value == pytest.approx((0 + 1 + 0.7) / 3)
    per_image = np.where(np.arange(100) < 30, 1 / 3, 2 / 3)
    assert found.error == pytest.approx(per_image.std(ddof=1) / 10)
    assert Counts.of(inliers, [0.0], threshold).flagged().value == 0.05


def test_bounds_where_all_pairs_behave_alike() -> None:
    apart = setup_auroc([0.0, 1.0, 2.0], [5.0, 6.0, 7.0, 8.0], [[0.5, 1.5, 2.5]])
    assert apart.share() == (1.0, pytest.approx(0.025 ** (1 / 3)), 1.0)  # Clopper and Pearson, three pairs
    same = apart - setup_auroc([0.0, 1.0, 2.0], [5.0, 6.0, 7.0, 8.0])
    assert (same.value, same.error) == (0.0, 0.0)
    assert same.difference().low < 0 < same.difference().high


@pytest.mark.parametrize("beyond", range(12))
def test_rounding_leaves_no_error_where_all_images_behave_alike(beyond: int) -> None:
    """Of 11 copies of every inlier so many lie beyond all outliers: shares of twelfths, which have no exact float."""
    inliers, outliers = np.zeros(60), np.ones(50)
    copies = [np.full(60, 2.0 if place < beyond else 0.5) for place in range(11)]
    found = setup_auroc(inliers, outliers, copies)
    assert found.value == pytest.approx(1 - beyond / 12)
    assert found.error == 0
    assert found.share().high - found.share().low > 0.05  # Clopper and Pearson of 50 pairs
    assert (found - setup_auroc(inliers, outliers)).error == 0


def test_a_mean_is_no_surer_than_its_smallest_test() -> None:
    """Where all tests separate everything, a test of one pair may be wrong for all that the others show."""
    many, one = Estimate(1.0, np.zeros(8), 1000), Estimate(1.0, np.zeros(8), 1)
    assert mean([many, one]).share() == (1.0, pytest.approx(0.025), 1.0)
    spread = Estimate(0.8, np.full(8, 0.01), 4)  # has an error of its own, which says nothing of the single image
    assert mean([spread, one]).error == 0
    assert mean([spread, one]).share().low < 0.1
    assert mean([many] * 49).value == 1.0


def test_one_image_tells_nothing_of_its_error() -> None:
    assert setup_auroc([0.0], [1.0, -1.0, 2.0], [[0.5]]).error == 0
    assert setup_auroc([0.0], [1.0, -1.0, 2.0], [[0.5]]).share().high - setup_auroc([0.0], [1.0, -1.0]).value > 0.3


def test_copies_must_be_of_the_same_images() -> None:
    with pytest.raises(ValueError, match="got 2 scores of shifted inliers for 3 inliers"):
        setup_auroc([0.0, 1.0, 2.0], [1.0], [[0.0, 1.0]])
    with pytest.raises(ValueError, match="1 of 3 shifted inlier scores are not finite"):
        setup_auroc([0.0, 1.0, 2.0], [1.0], [[0.0, 1.0, np.nan]])


def test_a_difference_of_estimates_is_that_of_paired_scores() -> None:
    inliers, outliers, copies = drawn(np.random.default_rng(5))
    a, b = setup_auroc(inliers, outliers), setup_auroc(copies[0], outliers)
    expected = metrics.paired_test(inliers, outliers, copies[0], outliers)
    np.testing.assert_allclose((a - b).difference(), expected, rtol=1e-9)
    assert isinstance(a - b, Estimate)
