"""Fréchet distance: closed forms, the textbook formula with a matrix square root, streaming, intervals, bias."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import sqrtm

from farout.metrics import Moments, fid, fid_interval, frechet_distance


def slow_fid(a: Any, b: Any) -> float:
    """Heusel et al. 2017, eq. 6, by the square root of the product of the covariances."""
    root = sqrtm(np.cov(a, rowvar=False) @ np.cov(b, rowvar=False))
    shift = a.mean(0) - b.mean(0)
    total = np.trace(np.cov(a, rowvar=False)) + np.trace(np.cov(b, rowvar=False)) - 2 * np.trace(root).real
    return float(shift @ shift + total)


def draw(count: int, dim: int, seed: int, shift: float = 0.0) -> Any:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, dim)) @ rng.normal(size=(dim, dim)) + shift


@pytest.mark.parametrize("dim", [2, 3, 40])
def test_a_slow_reference(dim: int) -> None:
    a, b = draw(200, dim, 0), draw(150, dim, 1, shift=2.0)
    assert fid(a, b) == pytest.approx(slow_fid(a, b), rel=1e-9)


def test_in_one_dimension() -> None:
    """(μ_a − μ_b)² + (σ_a − σ_b)²."""
    a, b = draw(20, 1, 0), draw(30, 1, 1, shift=2.0)
    expected = (a.mean() - b.mean()) ** 2 + (a.std(ddof=1) - b.std(ddof=1)) ** 2
    assert fid(a, b) == pytest.approx(expected, rel=1e-12)


def test_equal_features_and_a_shift() -> None:
    a = draw(100, 12, 0)
    assert fid(a, a) == pytest.approx(0, abs=1e-10)
    assert fid(a, a + 3) == pytest.approx(12 * 9, rel=1e-12)
    assert fid(a, a[::-1] * 2) == pytest.approx(np.trace(np.cov(a, rowvar=False)) + (a.mean(0) ** 2).sum(), rel=1e-10)


def test_fewer_features_than_dimensions() -> None:
    """Covariances of rank 9: the subspace that both sets span gives the same distance with full rank."""
    rng = np.random.default_rng(3)
    basis = np.linalg.qr(rng.normal(size=(300, 9)))[0]
    a, b = draw(10, 9, 4), draw(10, 9, 5, shift=1.0)
    assert fid(a @ basis.T, b @ basis.T) == pytest.approx(fid(a, b), rel=1e-10)
    alone = draw(10, 40, 6)
    assert fid(alone, alone) == pytest.approx(0, abs=1e-9)
    constant = np.ones((5, 3))
    assert fid(constant, constant + 2) == pytest.approx(12)


def test_batches_of_any_size_give_the_same_moments() -> None:
    """Also with a mean of a million, where sums of squares would lose all digits of the covariance."""
    features = draw(1000, 5, 7) + 1e6
    moments = Moments(5)
    for part in np.split(features, [1, 2, 40, 999]):
        moments.update(part)
    np.testing.assert_allclose(moments.covariance, np.cov(features - 1e6, rowvar=False), rtol=1e-7)
    np.testing.assert_allclose(moments.mean, features.mean(0), rtol=1e-14)
    other = Moments.of(draw(300, 5, 8))
    assert frechet_distance(moments, other) == pytest.approx(fid(features, draw(300, 5, 8)), rel=1e-12)


def test_float32_features_are_added_up_in_float64() -> None:
    features = draw(5000, 4, 9).astype(np.float32)
    expected = np.cov(features.astype(np.float64), rowvar=False)
    np.testing.assert_allclose(Moments.of(features).covariance, expected, rtol=1e-12)


def test_the_bias_of_equal_distributions_is_the_documented_one() -> None:
    rng = np.random.default_rng(0)
    dim, n, m = 6, 300, 900
    found = np.mean([fid(2 * rng.normal(size=(n, dim)), 2 * rng.normal(size=(m, dim))) for _ in range(100)])
    expected = 4 * (dim + dim * (dim + 1) / 4) * (1 / n + 1 / m)
    assert found == pytest.approx(expected, rel=0.1)


def test_the_interval_has_the_standard_error_of_repeated_draws() -> None:
    rng = np.random.default_rng(1)
    scales = np.linspace(0.5, 1.5, 5)
    found = [
        fid_interval(rng.normal(size=(300, 5)), rng.normal(size=(500, 5)) * scales + 0.5, level=0.6827)
        for _ in range(150)
    ]
    spread = np.std([one.value for one in found])
    assert np.mean([(one.high - one.low) / 2 for one in found]) == pytest.approx(spread, rel=0.15)


def test_the_influence_is_the_derivative() -> None:
    """Against leaving out each image in turn: the jackknife's standard error agrees to first order."""
    a, b = draw(150, 3, 10), draw(200, 3, 11, shift=1.0)
    one_less = [fid(np.delete(a, i, 0), b) for i in range(len(a))]
    other = [fid(a, np.delete(b, i, 0)) for i in range(len(b))]
    variance = sum((len(x) - 1) ** 2 / len(x) * np.var(x, ddof=1) for x in (one_less, other))
    found = fid_interval(a, b, level=0.6826894921)
    assert (found.high - found.low) / 2 == pytest.approx(variance**0.5, rel=0.05)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ((np.ones(4), np.ones((4, 2))), r"shape \(4,\), expected \[N, D\]"),
        ((np.ones((4, 3)), np.ones((4, 2))), "features have 3 and 2 dimensions"),
        ((np.ones((1, 2)), np.ones((4, 2))), "got 1 features, expected at least 2"),
        ((np.full((4, 2), np.inf), np.ones((4, 2))), "not finite numbers"),
        ((np.array([["a", "b"]] * 3), np.ones((4, 2))), "not finite numbers"),
    ],
)
def test_wrong_inputs_are_refused(wrong: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        fid(*wrong)


def test_batches_of_another_network_are_refused() -> None:
    moments = Moments.of(np.ones((3, 2)))
    with pytest.raises(ValueError, match="got features of 3 dimensions after 2"):
        moments.update(np.ones((3, 3)))
