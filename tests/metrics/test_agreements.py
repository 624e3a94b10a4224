"""Agreement of many lists: equal to that of each pair; representatives against a search by hand."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import kendalltau, rankdata

from farout.metrics import rank_agreement, rank_agreements, representatives

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(5, 12)) + np.array([1.0, 1.0, 1.0, 0.0, 0.0])[:, None] * RNG.normal(size=12) * 2
VALUES[0] = VALUES[0].round()  # ties


def test_tau_and_intervals_equal_those_of_each_pair() -> None:
    found = rank_agreements(VALUES, resamples=200)
    for a, b in combinations(range(len(VALUES)), 2):
        kendall = rank_agreement(VALUES[a], VALUES[b], resamples=200).kendall
        assert (found.tau[a, b], found.low[a, b], found.high[a, b]) == pytest.approx(tuple(kendall))
    assert found.tau == pytest.approx(found.tau.T)


def test_few_items_the_same_order_and_no_order_have_no_interval() -> None:
    few = rank_agreements(VALUES[:, :7])
    assert np.isnan(few.low).all()
    assert few.tau[1, 2] == pytest.approx(kendalltau(VALUES[1, :7], VALUES[2, :7]).statistic)
    same = rank_agreements([VALUES[1], 3 * VALUES[1], np.ones(12)], resamples=50)
    assert same.tau[0, 1] == pytest.approx(1)
    assert np.isnan([same.low[0, 1], same.tau[0, 2], same.high[1, 2]]).all()


def test_representatives_are_the_best_of_all_sets() -> None:
    ranks = np.stack([rankdata(one) for one in VALUES])
    for found in representatives(VALUES, 3):
        size, best = len(found.chosen), -2.0
        for chosen in combinations(range(5), size):
            others = [place for place in range(5) if place not in chosen]
            taus = [kendalltau(ranks[list(chosen)].mean(0), VALUES[place]).statistic for place in others]
            best = max(best, float(np.mean(taus)))
            if chosen == found.chosen:
                assert (found.mean, found.worst) == pytest.approx((np.mean(taus), min(taus)))
                assert found.worst_at == others[int(np.argmin(taus))]
        assert found.mean == pytest.approx(best)


def test_many_lists_are_searched_step_by_step() -> None:
    order = np.arange(9.0)
    lists = [order + RNG.normal(0, 1, 9) for _ in range(40)]
    steps = representatives(lists, 3)
    assert len(set(steps[2].chosen)) == 3
    assert set(steps[1].chosen) < set(steps[2].chosen)
    assert steps[0].mean < steps[2].mean


def test_lists_that_cannot_be_ranked_are_refused() -> None:
    with pytest.raises(ValueError, match="two lists of at least 3"):
        rank_agreements([[1.0, 2.0], [2.0, 1.0]])
