"""Thresholds and conformal p-values from validation scores."""

from __future__ import annotations

import numpy as np
import pytest

from farout import NotFitted, Panel
from farout.detectors import KNN
from farout.detectors.panel.thresholds import p_values, threshold
from helpers.counting import Counting
from helpers.panels import fitted, images, network, pixels


@pytest.mark.parametrize("recall", [0.01, 0.07, 0.14, 0.5, 0.55, 0.9, 0.95, 0.999, 1.0])
@pytest.mark.parametrize("total", [1, 20, 50, 100])
def test_the_threshold_is_the_smallest_score_that_keeps_the_recall(recall: float, total: int) -> None:
    panel = Panel(network(), ["msp"])
    scores = np.random.default_rng(total).normal(size=total).round(1)
    panel.validation = {"msp": scores}
    keeping = [t for t in scores if (scores <= t).sum() / total >= recall]
    assert panel.threshold(recall) == {"msp": min(keeping)}


def test_thresholds_come_from_the_validation_split() -> None:
    panel = fitted()
    expected = panel.score(images(70, 2))
    for name, limit in panel.threshold(0.8).items():
        at = np.isclose(expected[name], limit, rtol=1e-9)
        assert ((expected[name] < limit) & ~at).mean() < 0.8 <= ((expected[name] <= limit) | at).mean(), name


def test_fitting_without_a_validation_split_forgets_the_old_thresholds() -> None:
    panel = fitted(["msp", "knn"]).fit(images(130, 1))
    with pytest.raises(NotFitted, match=r"thresholds need inlier validation scores: call fit\(train, val"):
        panel.threshold()


@pytest.mark.parametrize("recall", [0.0, -0.1, 1.01, 95, float("nan")])
def test_a_recall_lies_between_0_and_1(recall: float) -> None:
    with pytest.raises(ValueError, match=r"recall must lie in .*use 0.95 instead of 95"):
        fitted(["msp"]).threshold(recall)


def test_refitting_a_member_forgets_its_threshold() -> None:
    panel = Panel(network(), ["knn", "msp"]).fit(images(130, 1), images(40, 2))
    panel["knn"].fit(images(130, 3))
    assert set(panel.threshold()) == {"msp"}


def slow(score: float, validation: list[float]) -> float:
    return (1 + sum(known >= score for known in validation)) / (len(validation) + 1)


@pytest.mark.parametrize("total", [1, 2, 19, 100])
@pytest.mark.parametrize("digits", [0, 1, 12], ids=["many ties", "ties", "none"])
def test_p_values_count_the_inliers_that_are_as_outlying(total: int, digits: int) -> None:
    rng = np.random.default_rng(total)
    validation, scores = rng.normal(size=total).round(digits), rng.normal(0, 2, 50).round(digits)
    scores = np.concatenate([scores, validation])
    expected = [slow(score, validation.tolist()) for score in scores.tolist()]
    np.testing.assert_array_equal(p_values(scores, validation), expected)
    assert p_values(scores, validation).dtype == np.float64


def test_p_values_at_the_ends() -> None:
    assert p_values(np.array([-9.0, 9.0]), np.arange(4.0)).tolist() == [1.0, 0.2]
    assert p_values(np.array([]), np.arange(4.0)).tolist() == []


@pytest.mark.parametrize("digits", [12, 0], ids=["none", "many ties"])
def test_exchangeable_draws_have_small_p_values_as_seldom_as_promised(digits: int) -> None:
    """Without ties p is uniform on 1/20 … 20/20; with them smaller values become rarer still."""
    rng = np.random.default_rng(5)
    draws = rng.standard_gamma(2.0, size=(20_000, 20)).round(digits)
    found = np.array([p_values(row[:1], row[1:])[0] for row in draws])
    counts = np.bincount(np.rint(found * 20).astype(int), minlength=21)[1:]
    assert counts.sum() == 20_000
    assert set(np.rint(found * 20)) <= set(range(1, 21))
    if digits:
        assert ((counts - 1000) ** 2 / 1000).sum() < 43.8  # the 0.999 quantile of chi-square with 19 degrees
    shares, allowed = np.cumsum(counts) / 20_000, np.arange(1, 21) / 20
    error = np.sqrt(allowed * (1 - allowed) / 20_000)
    assert (shares <= allowed + 3 * error).all()
    if not digits:
        assert (shares < allowed - 10 * error)[:5].all(), "with ties clearly less often than allowed"


def test_p_values_fall_where_scores_rise() -> None:
    rng = np.random.default_rng(1)
    scores = np.sort(rng.normal(size=300).round(1))
    assert (np.diff(p_values(scores, rng.normal(size=50).round(1))) <= 0).all()


@pytest.mark.parametrize("recall", [0.05, 0.5, 0.9, 0.95, 1.0])
@pytest.mark.parametrize("digits", [0, 1, 12])
def test_what_exceeds_the_threshold_has_a_small_p_value(recall: float, digits: int) -> None:
    """With m validation scores above the threshold, a score exceeds it iff p <= (1 + m) / (n + 1)."""
    rng = np.random.default_rng(3)
    validation = rng.normal(size=60).round(digits)
    limit = threshold(validation, recall)
    scores = np.concatenate([rng.normal(size=200).round(digits), validation])
    above = sum(known > limit for known in validation.tolist())
    if digits == 12:
        assert above == 60 - int(np.ceil(recall * 60))
    np.testing.assert_array_equal(scores > limit, p_values(scores, validation) <= (1 + above) / 61)


def test_a_panel_gives_p_values_by_the_scores_of_its_members() -> None:
    panel = fitted(["msp", KNN(k=3), "odin"])
    scores, found = panel.score(pixels(9, 3)), panel.p_values(pixels(9, 3))
    assert list(found) == list(scores)
    for name, values in found.items():
        validation = panel.validation[name].tolist()
        assert values.tolist() == [slow(score, validation) for score in scores[name].tolist()]
    listener = Counting()
    np.testing.assert_array_equal(panel.p_values(images(9, 3), progress=listener)["knn"], found["knn"])
    assert listener.counts == [9]


def test_one_image_is_a_batch_of_one() -> None:
    panel, image = fitted(["msp", "odin"]), pixels(1, 3)
    assert {name: values.shape for name, values in panel.score(image[0]).items()} == {"msp": (1,), "odin": (1,)}
    for ask in (panel.score, panel.p_values):
        one, batch = ask(image[0]), ask(image)
        assert all(one[name].tolist() == values.tolist() for name, values in batch.items())


def test_p_values_need_validation_scores() -> None:
    panel = Panel(network(), ["msp"])
    with pytest.raises(NotFitted, match=r"p-values need inlier validation scores: call fit\(train, val=...\) first"):
        panel.p_values(pixels(2, 3))
    assert not panel.network.module.seen, "nothing runs before the check"
