"""Rank agreement: Kendall's tau and Spearman's rho against scipy and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import kendalltau, spearmanr

from farout.metrics import rank_agreement


@pytest.mark.parametrize("ties", [False, True])
def test_values_are_those_of_scipy(ties: bool) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 12))
    if ties:
        a, b = a.round(), b.round()
    found = rank_agreement(a, b)
    assert found.n == 12
    assert found.kendall.value == pytest.approx(kendalltau(a, b).statistic)
    assert found.spearman.value == pytest.approx(spearmanr(a, b).statistic)
    assert found.p_value == pytest.approx(kendalltau(a, b).pvalue)
    for interval in (found.kendall, found.spearman):
        assert -1 <= interval.low <= interval.value <= interval.high <= 1
        assert interval.low < interval.high


@pytest.mark.parametrize("n", [4, 12])
def test_the_same_and_the_reverse_order_have_no_interval(n: int) -> None:
    same, reverse = rank_agreement(range(n), np.arange(n) ** 2), rank_agreement(range(n), range(n, 0, -1))
    assert (same.kendall.value, same.spearman.value) == pytest.approx((1, 1))
    assert (reverse.kendall.value, reverse.spearman.value) == pytest.approx((-1, -1))
    assert np.isnan([one for found in (same, reverse) for one in (*found.kendall[1:], *found.spearman[1:])]).all()
    assert same.p_value == pytest.approx(2 / math.factorial(n))  # one of n! orders, and its reverse


def test_few_items_have_no_interval() -> None:
    order = [1, 3, 2, 4, 5, 7, 6, 8]
    few, enough = rank_agreement(range(7), order[:7]), rank_agreement(range(8), order)
    assert few.kendall.value == pytest.approx(1 - 2 * 2 / 21)  # two of 21 pairs are in another order
    assert np.isnan([*few.kendall[1:], *few.spearman[1:]]).all()
    assert enough.kendall.low < enough.kendall.value == pytest.approx(1 - 2 * 2 / 28)
    assert enough.spearman.low < enough.spearman.value


def test_the_interval_shrinks_with_the_number_of_items() -> None:
    rng = np.random.default_rng(1)
    a = rng.normal(size=200)
    b = a + rng.normal(size=200)
    few, many = (rank_agreement(a[:n], b[:n]).kendall for n in (10, 200))
    assert many.high - many.low < 0.4 * (few.high - few.low)
    assert many.low < 0.5 < many.high  # tau of a correlation of √½ is 2/π·asin(√½) = ½


def test_equal_values_have_no_order() -> None:
    found = rank_agreement([1, 1, 1], [1, 2, 3])
    assert np.isnan([*found.kendall, *found.spearman]).all()


def test_too_few_items() -> None:
    with pytest.raises(ValueError, match=r"got 2 and 2 values, expected as many of both, at least 3"):
        rank_agreement([1, 2], [1, 2])
    with pytest.raises(ValueError, match=r"got 3 and 4 values"):
        rank_agreement([1, 2, 3], [1, 2, 3, 4])
