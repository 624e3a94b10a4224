"""DeLong's interval and paired test against the definition, other bounds and simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit, ndtri
from scipy.stats import binomtest, norm, ttest_1samp

from farout.metrics import Interval, auroc, auroc_interval, mean_interval, paired_test

some = st.lists(st.integers(-5, 5), min_size=2, max_size=25).map(lambda s: np.array(s, dtype=np.float64))
thorough = settings(deadline=None, max_examples=150)
Z = ndtri(0.975)


def components(inliers, outliers):
    """Structural components from all n·m comparisons."""
    x, y = np.asarray(inliers)[:, None], np.asarray(outliers)[None]
    psi = (y > x) + 0.5 * (y == x)
    return psi.mean(1), psi.mean(0)


def covariance(a, b):
    """S10 / n + S01 / m of two detectors, by DeLong's formula."""
    return sum(np.cov(of_a, of_b)[0, 1] / len(of_a) for of_a, of_b in zip(a, b, strict=True))


@thorough
@given(some, some)
def test_interval_is_delongs_on_the_logit_scale(inliers, outliers):
    interval = auroc_interval(inliers, outliers)
    v = components(inliers, outliers)
    assert interval.value == auroc(inliers, outliers)
    assert 0 <= interval.low <= interval.value <= interval.high <= 1
    assert interval.high - interval.low > 0.05
    if (variance := covariance(v, v)) > 1e-12:
        reach = Z * np.sqrt(variance) / (interval.value * (1 - interval.value))
        expected = expit(logit(interval.value) + np.array([-reach, reach]))
        np.testing.assert_allclose(interval[1:], expected, rtol=1e-9, atol=1e-12)


def test_interval_of_many_scores_agrees_with_the_definition():
    rng = np.random.default_rng(5)
    inliers, outliers = rng.normal(size=700).round(1), rng.normal(1, 2, size=400).round(1)
    v = components(inliers, outliers)
    value, low, high = auroc_interval(inliers, outliers, level=0.8)
    slope = value * (1 - value)
    assert (logit(high) - logit(low)) / 2 * slope == pytest.approx(norm.ppf(0.9) * covariance(v, v) ** 0.5)
    assert auroc_interval(inliers * 1e6, outliers * 1e6, level=0.8) == (value, low, high)


@thorough
@given(some, some)
def test_swapped_sides_mirror_the_interval(inliers, outliers):
    value, low, high = auroc_interval(inliers, outliers)
    np.testing.assert_allclose(auroc_interval(outliers, inliers), (1 - value, 1 - high, 1 - low), atol=1e-12)


@pytest.mark.parametrize(("n", "m"), [(20, 20), (5, 400), (400, 5), (1, 1)])
def test_separated_scores_have_the_exact_binomial_interval(n, m):
    k = min(n, m)
    interval = auroc_interval(np.arange(n), n + np.arange(m))
    assert interval == Interval(1.0, pytest.approx(0.025 ** (1 / k)), 1.0)
    exact = binomtest(k, k).proportion_ci(0.95, method="exact")
    assert interval[1:] == pytest.approx(tuple(exact))
    assert auroc_interval(n + np.arange(m), np.arange(n)) == (0.0, 0.0, pytest.approx(1 - interval.low))


def test_all_scores_tied():
    exact = binomtest(20, 40).proportion_ci(0.95, method="exact")
    assert auroc_interval(np.zeros(40), np.zeros(90)) == (0.5, *map(pytest.approx, exact))


def test_a_single_outlier_leaves_the_auroc_nearly_open():
    value, low, high = auroc_interval(np.arange(1000), [699.5])
    assert value == 0.7
    assert low < 0.02
    assert high > 0.98


def coverage(draw, truth, runs):
    rng = np.random.default_rng(11)
    intervals = [auroc_interval(*draw(rng)) for _ in range(runs)]
    return np.mean([low <= truth <= high for _, low, high in intervals])


@pytest.mark.parametrize(("n", "m", "truth"), [(50, 50, 0.76), (50, 50, 0.95), (300, 100, 0.9), (20, 20, 0.99)])
def test_coverage_on_gaussian_scores(n, m, truth):
    d = norm.ppf(truth) * np.sqrt(2)
    covered = coverage(lambda rng: (rng.normal(size=n), rng.normal(d, size=m)), truth, 1000)
    assert 0.93 <= covered <= 0.99


@pytest.mark.parametrize(("m", "truth"), [(20, 0.97), (50, 0.99), (50, 0.9)])
def test_coverage_where_separation_is_as_likely_as_it_can_be(m, truth):
    """An outlier lies above all inliers or below all of them: P(separation) is AUROC^m, the bound itself."""

    def draw(rng):
        return rng.random(60), np.where(rng.random(m) < truth, 2, -2) + rng.random(m)

    assert coverage(draw, truth, 1000) >= 0.93


def two_detectors(rng, n=60, m=40, gap=0.0):
    common_in, common_out = rng.normal(size=n), rng.normal(1, size=m)
    a = common_in + 0.6 * rng.normal(size=n), common_out + gap + 0.6 * rng.normal(size=m)
    b = common_in + 0.6 * rng.normal(size=n), common_out + 0.6 * rng.normal(size=m)
    return (*a, *b)


@pytest.mark.parametrize("digits", [0, 1, 9])
def test_paired_test_is_delongs_with_covariance(digits):
    x_a, y_a, x_b, y_b = (s.round(digits) for s in two_detectors(np.random.default_rng(2), gap=0.4))
    a, b = components(x_a, y_a), components(x_b, y_b)
    error = np.sqrt(covariance(a, a) + covariance(b, b) - 2 * covariance(a, b))
    d = auroc(x_a, y_a) - auroc(x_b, y_b)
    expected = (d, d - Z * error, d + Z * error, 2 * norm.sf(abs(d) / error))
    np.testing.assert_allclose(paired_test(x_a, y_a, x_b, y_b), expected, rtol=1e-9)


def test_paired_test_is_antisymmetric_and_blind_to_scale():
    x_a, y_a, x_b, y_b = two_detectors(np.random.default_rng(4), gap=0.3)
    d, low, high, p = paired_test(x_a, y_a, x_b, y_b)
    assert paired_test(x_b, y_b, x_a, y_a) == pytest.approx((-d, -high, -low, p))
    assert paired_test(1e6 * x_a, 1e6 * y_a, np.exp(x_b), np.exp(y_b)) == (d, low, high, p)


def test_paired_test_uses_the_pairing():
    x_a, y_a, x_b, y_b = two_detectors(np.random.default_rng(6), n=200, m=200, gap=0.2)
    order = np.random.default_rng(7).permutation(200)
    paired = paired_test(x_a, y_a, x_b, y_b)
    broken = paired_test(x_a, y_a, x_b[order], y_b[order])
    assert paired.difference == broken.difference
    assert paired.p_value < 0.2 * broken.p_value


def test_paired_test_keeps_its_level_and_covers():
    rng = np.random.default_rng(8)
    results = [paired_test(*two_detectors(rng)) for _ in range(800)]
    assert 0.03 <= np.mean([r.p_value < 0.05 for r in results]) <= 0.075
    assert all((r.p_value < 0.05) == (not r.low <= 0 <= r.high) for r in results)


def test_equal_scores_cannot_be_told_apart():
    x, y, _, _ = two_detectors(np.random.default_rng(9))
    d, low, high, p = paired_test(x, y, x, y)
    assert (d, p) == (0, 1)
    assert high == -low == pytest.approx(1 - 0.025 ** (1 / 40))
    assert paired_test([0.0], [1.0, 2.0], [3.0], [1.0, 2.0]).p_value == 1  # one inlier proves nothing


@pytest.mark.parametrize("k", [2, 5, 6, 30])
def test_opposite_perfect_detectors_face_a_sign_test(k):
    low_scores, high_scores = np.arange(k), 100 + np.arange(k)
    d, low, high, p = paired_test(low_scores, high_scores, high_scores, low_scores)
    assert (d, high) == (1, 1)
    assert p == pytest.approx(binomtest(k, k).pvalue)
    assert (low > 0) == (p < 0.05)


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_interval_of_a_mean_is_students(level):
    values = np.random.default_rng(0).normal(3, 2, 7)
    found, known = mean_interval(values, level=level), ttest_1samp(values, 0).confidence_interval(level)
    assert found == pytest.approx((values.mean(), known.low, known.high))
    assert np.isnan(mean_interval([1.0])[1:]).all()
