"""The bootstrap on counts against resampling of the scores themselves."""

from functools import partial

import numpy as np
import pytest

from farout.metrics import (
    aupr,
    auroc,
    auroc_interval,
    bootstrap,
    bootstrap_interval,
    bootstrap_intervals,
    detection_accuracy,
    fpr_at_95_id_recall,
    fpr_at_95_ood_recall,
    min_rank,
    overlap,
)
from farout.metrics.counts import Counts

METRICS = {
    "auroc": auroc,
    "aupr": aupr,
    "aupr of inliers": partial(aupr, positive="inlier"),
    "fpr at id recall": fpr_at_95_id_recall,
    "fpr at ood recall": partial(fpr_at_95_ood_recall, recall=0.8),
    "detection accuracy": detection_accuracy,
    "min rank": partial(min_rank, normalized=True),
}


@pytest.fixture(params=["ties", "no ties"])
def scores(request):
    rng = np.random.default_rng(1)
    inliers, outliers = rng.normal(size=120), rng.normal(1, size=80)
    return (inliers.round(1), outliers.round(1)) if request.param == "ties" else (inliers, outliers)


@pytest.mark.parametrize("name", METRICS)
def test_counts_give_what_the_resampled_scores_give(name, scores):
    metric, on_counts = METRICS[name], bootstrap._on_counts(METRICS[name])
    distinct = np.unique(np.concatenate(scores))
    x, y, bins = bootstrap._binned(*scores)
    draws = bootstrap._Separate(*(side.size for side in scores))
    inliers, outliers = draws.counts(x, y, bins, 25, *np.random.default_rng(3).spawn(2))
    drawn = Counts(inliers, outliers)
    assert (inliers.sum(1) == scores[0].size).all()
    assert (outliers.sum(1) == scores[1].size).all()
    called = [metric(np.repeat(distinct, x), np.repeat(distinct, y)) for x, y in zip(inliers, outliers, strict=True)]
    assert np.allclose(on_counts(drawn), called, rtol=0, atol=1e-14)
    assert len(set(called)) > 1


def test_resampled_counts_have_the_multinomial_mean_and_variance():
    x, y = np.array([50, 30, 20]), np.array([10, 0, 90])
    bins, rngs = (np.repeat(range(3), side) for side in (x, y)), np.random.default_rng(0).spawn(2)
    for drawn, counts in zip(bootstrap._Separate(100, 100).counts(*bins, 3, 20_000, *rngs), (x, y), strict=True):
        share = counts / 100
        assert drawn.mean(0) == pytest.approx(counts, abs=0.2)
        assert drawn.var(0) == pytest.approx(100 * share * (1 - share), rel=0.05, abs=1e-9)


@pytest.mark.parametrize("name", [name for name in METRICS if name != "min rank"])  # an extreme: bins are too coarse
def test_bins_change_intervals_by_less_than_a_tenth(name, monkeypatch):
    rng = np.random.default_rng(5)
    scores = rng.normal(size=9000), rng.normal(1.5, 1.2, size=9000)
    binned = bootstrap_interval(METRICS[name], *scores, resamples=2000)
    monkeypatch.setattr(bootstrap, "_EXACT", 10**9)
    exact = bootstrap_interval(METRICS[name], *scores, resamples=2000, seed=1)
    assert binned.value == exact.value
    width = exact.high - exact.low
    assert (binned.low, binned.high) == pytest.approx((exact.low, exact.high), abs=0.1 * width)


def test_several_metrics_share_the_resamples(scores):
    together = bootstrap_intervals(METRICS, *scores, resamples=100)
    assert together == {name: bootstrap_interval(metric, *scores, resamples=100) for name, metric in METRICS.items()}


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("paired", [False, True], ids=["sides apart", "in pairs"])
def test_interval_is_that_of_the_same_draws_of_scores(name, paired, scores):
    """The plain definition: draw images by the same indices, call the metric, take quantiles."""
    metric, rngs = METRICS[name], np.random.default_rng(7).spawn(2)
    inliers, outliers = scores
    m, rest = len(outliers), np.arange(len(outliers), len(inliers))
    if paired:  # outlier k is a copy of inlier k
        drawn, unpaired = (
            rng.integers(size, size=(60, size), dtype=np.int32) for rng, size in zip(rngs, (m, len(rest)), strict=True)
        )
        plain = [metric(inliers[np.r_[i, rest[j]]], outliers[i]) for i, j in zip(drawn, unpaired, strict=True)]
    else:
        drawn = [
            rng.integers(len(side), size=(60, len(side)), dtype=np.int32)
            for rng, side in zip(rngs, scores, strict=True)
        ]
        plain = [metric(inliers[i], outliers[j]) for i, j in zip(*drawn, strict=True)]
    given = {"copied": np.arange(m)} if paired else {}
    found = bootstrap_intervals({"": metric}, *scores, resamples=60, seed=7, level=0.5, **given)[""]
    value, expected = metric(*scores), np.quantile(plain, [0.25, 0.75])
    expected = min(value, expected[0]), max(value, expected[1])
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("name", ["auroc", "aupr", "fpr at id recall", "detection accuracy"])
def test_interval_agrees_with_a_plain_resampling_loop(name, scores):
    metric, (inliers, outliers) = METRICS[name], scores
    rng = np.random.default_rng(99)
    plain = [metric(rng.choice(inliers, inliers.size), rng.choice(outliers, outliers.size)) for _ in range(3000)]
    _, low, high = bootstrap_interval(metric, *scores, resamples=3000, level=0.9)
    assert (low, high) == pytest.approx(np.quantile(plain, [0.05, 0.95]), abs=0.2 * np.std(plain))


def test_auroc_bootstrap_agrees_with_delong():
    rng = np.random.default_rng(2)
    inliers, outliers = rng.normal(size=600), rng.normal(1, size=500)
    delong = auroc_interval(inliers, outliers)
    assert bootstrap_interval(auroc, inliers, outliers, resamples=4000) == pytest.approx(delong, abs=0.003)


def test_a_proportion_has_the_binomial_quantiles():
    """With inliers all equal, the FPR at full recall is the share of outliers at or below them."""
    outliers = np.r_[np.zeros(30), np.ones(70)]
    metric = partial(fpr_at_95_id_recall, recall=1.0)
    value, low, high = bootstrap_interval(metric, np.zeros(5), outliers, resamples=4000)
    assert value == 0.3
    assert (low, high) == pytest.approx((0.21, 0.39), abs=0.011)


@pytest.mark.parametrize("metric", [auroc, overlap])
def test_seed_decides_and_block_size_does_not(metric, scores, monkeypatch):
    first = bootstrap_interval(metric, *scores, resamples=50, seed=1)
    assert bootstrap_interval(metric, *scores, resamples=50, seed=1) == first
    assert bootstrap_interval(metric, *scores, resamples=50, seed=2) != first
    for block in (1, 700):
        monkeypatch.setattr("farout.metrics.bootstrap._BLOCK", block)
        assert bootstrap_interval(metric, *scores, resamples=50, seed=1) == first


def test_any_function_of_two_samples_has_an_interval(scores):
    value, low, high = bootstrap_interval(lambda x, y: y.mean() - x.mean(), *scores, resamples=2000)
    error = np.sqrt(scores[0].var() / 120 + scores[1].var() / 80)
    assert (low, high) == pytest.approx((value - 1.96 * error, value + 1.96 * error), abs=0.15 * error)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_interval_contains_the_value(sign):
    """A maximum over thresholds is biased when resampled, so a short interval would miss the value."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        value, low, high = bootstrap_interval(
            lambda x, y: sign * detection_accuracy(x, y),
            rng.normal(size=9),
            rng.normal(size=9),
            resamples=50,
            level=0.05,
        )
        assert low <= value <= high


def pairs(rng, n=200, m=150, noise=0.3, shift=0.7):
    """Inliers, changed copies of some of them, and which these are."""
    inliers, copied = rng.normal(size=n), rng.permutation(n)[:m]
    return inliers, inliers[copied] + shift + noise * rng.normal(size=m), copied


@pytest.mark.parametrize("name", [*METRICS, "any"])
def test_copies_are_drawn_with_what_they_are_copies_of(name):
    """Against a loop that draws pairs, and the inliers without a copy, by themselves."""
    metric = METRICS.get(name, lambda x, y: y.mean() - x.mean())
    inliers, outliers, copied = pairs(np.random.default_rng(4))
    rest, rng, plain = np.setdiff1d(np.arange(200), copied), np.random.default_rng(99), []
    for _ in range(3000):
        drawn = rng.integers(150, size=150)
        plain.append(metric(inliers[np.r_[copied[drawn], rng.choice(rest, 50)]], outliers[drawn]))
    given = {"metric": metric}
    interval = bootstrap_intervals(given, inliers, outliers, copied=copied, resamples=3000, level=0.9)["metric"]
    expected = np.quantile(plain, [0.05, 0.95])
    assert (interval.low, interval.high) == pytest.approx(expected, abs=0.2 * np.std(plain))


@pytest.mark.parametrize("metric", [auroc, fpr_at_95_id_recall])
def test_intervals_of_copies_are_as_wide_as_they_should_be(metric):
    """Drawn apart they would be far too wide: a copy that is nearly its inlier adds no noise of its own."""
    estimates, widths = [], []
    for seed in range(60):
        inliers, outliers, copied = pairs(np.random.default_rng(seed), n=400, m=400, noise=0.1)
        estimates.append(metric(inliers, outliers))
        low_high = bootstrap_intervals({"": metric}, inliers, outliers, copied=copied, resamples=200)[""]
        widths.append(low_high.high - low_high.low)
    assert np.mean(widths) == pytest.approx(2 * 1.96 * np.std(estimates), rel=0.35)


@pytest.mark.parametrize("copied", [[0, 1], [0, 0, 1], [0, 1, 5], [-1, 0, 1]])
def test_copies_must_be_of_inliers_that_are_there(copied):
    with pytest.raises(ValueError, match="3 different indices of the 5 inliers"):
        bootstrap_intervals({"auroc": auroc}, np.arange(5), np.arange(3), copied=copied)


def test_a_lower_level_narrows_the_interval(scores):
    _, low, high = bootstrap_interval(aupr, *scores, level=0.95)
    _, inner_low, inner_high = bootstrap_interval(aupr, *scores, level=0.5)
    assert low < inner_low < inner_high < high


def test_memory_is_bounded_by_the_block():
    assert [size for size, _ in bootstrap._blocks(3, 600_000, seed=0)] == [1] * 3
    assert sum(size for size, _ in bootstrap._blocks(25_000, 50, seed=0)) == 25_000


@pytest.mark.parametrize(
    ("metric", "bound"),
    [(fpr_at_95_id_recall, "high"), (fpr_at_95_ood_recall, "high"), (detection_accuracy, "low"), (aupr, "low")],
)
def test_no_error_among_few_images_does_not_mean_no_errors(metric, bound):
    interval = bootstrap_interval(metric, np.arange(40.0), 100 + np.arange(60.0))
    rule = 0.025 ** (1 / 40)  # the rate p with p^40 = 2.5 %
    assert getattr(interval, bound) == pytest.approx(1 - rule if bound == "high" else rule)
    assert interval.value in (interval.low, interval.high)
