"""The overlap coefficient against scipy's kernel estimate, a closed form and degenerate scores."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from scipy.stats import gaussian_kde

from farout.metrics import overlap


def reference(inliers, outliers, points=20_001):
    """∫ min of scipy's estimates after joint min-max normalization."""
    both = np.r_[inliers, outliers]
    x, y = ((s - both.min()) / np.ptp(both) for s in (inliers, outliers))
    margin = 6 * max(x.std(), y.std())
    grid = np.linspace(-margin, 1 + margin, points)
    return np.trapezoid(np.minimum(gaussian_kde(x)(grid), gaussian_kde(y)(grid)), grid)


SAMPLES = {
    "shifted": lambda rng: (rng.normal(size=300), rng.normal(1, size=200)),
    "reversed": lambda rng: (rng.normal(2, size=300), rng.normal(size=50)),
    "unequal widths": lambda rng: (rng.normal(size=400), rng.normal(0.5, 0.02, size=400)),
    "heavy tails": lambda rng: (rng.standard_t(2, size=300), rng.standard_t(2, size=300) + 3),
    "two modes": lambda rng: (rng.normal(size=200) + rng.choice([-4, 4], 200), rng.normal(size=200)),
    "ties": lambda rng: (rng.integers(0, 4, 100) / 4, rng.integers(1, 6, 100) / 4),
    "far off": lambda rng: (rng.normal(1e6, size=100), rng.normal(1e6 + 1, size=100)),
    "pairs": lambda rng: (np.array([0.0, 1.0]), np.array([0.5, 2.0])),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_agrees_with_gaussian_kde(name):
    inliers, outliers = SAMPLES[name](np.random.default_rng(3))
    assert overlap(inliers, outliers) == pytest.approx(reference(inliers, outliers), abs=5e-4)
    assert overlap(outliers, inliers) == pytest.approx(overlap(inliers, outliers), abs=1e-12)


def test_a_single_extreme_score_does_not_blunt_the_other_side():
    rng = np.random.default_rng(0)
    inliers, outliers = rng.normal(size=200), np.r_[rng.normal(size=199), 1e4]
    h = outliers.std(ddof=1) * 200**-0.2  # far wider than all inliers, so g is flat where f lives
    assert overlap(inliers, outliers) < 10 * inliers.std() * gaussian_kde(outliers)(0)[0]
    assert h > 100 * inliers.std()


def test_gaussian_closed_form():
    d, n = 1.2, 50_000
    quantiles = ndtri((np.arange(n) + 0.5) / n)
    smoothed = np.sqrt(1 + n**-0.4)  # the kernel widens both densities
    assert overlap(quantiles, quantiles + d) == pytest.approx(2 * ndtr(-d / 2 / smoothed), abs=5e-4)


@given(
    st.lists(st.floats(-100, 100), min_size=2, max_size=30).filter(lambda s: np.ptp(s) > 1e-3),
    st.sampled_from([(1e6, 0.0), (1e-3, 5.0), (3.0, -1e3)]),
)
@settings(deadline=None, max_examples=50)
def test_equal_samples_overlap_fully_and_scaling_changes_nothing(scores, affine):
    scale, offset = affine
    inliers, outliers = np.array(scores), np.array(scores[::-1]) + 1.0
    assert overlap(inliers, inliers) == pytest.approx(1, abs=1e-6)
    assert 0 <= overlap(inliers, outliers) <= 1
    rescaled = overlap(scale * inliers + offset, scale * outliers + offset)
    assert rescaled == pytest.approx(overlap(inliers, outliers), abs=1e-4)


def test_separated_samples_do_not_overlap():
    rng = np.random.default_rng(1)
    assert overlap(rng.normal(size=100), rng.normal(1000, size=100)) == 0


@pytest.mark.parametrize(
    ("inliers", "outliers", "expected"),
    [
        ([0.1] * 10, [0.1] * 3, 1),
        ([0.1] * 10, [0.2] * 3, 0),
        ([0.1] * 10, [0.0, 0.1, 0.2], 0),
        ([0.0, 0.1, 0.2], [0.1], 0),
        ([5.0], [5.0], 1),
        ([1e6] * 4, [1e6 + 1e-9] * 4, 0),
        ([0.7, np.nextafter(0.7, 1)], [0.0, 1.0, 0.5], 0),
    ],
)
def test_constant_sides_are_point_masses(inliers, outliers, expected):
    assert overlap(inliers, outliers) == expected
