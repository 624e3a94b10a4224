"""Agreement of rankings of the same items: Kendall's tau and Spearman's rho, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from farout.metrics.counts import FloatArray, as_fraction, as_scores
from farout.metrics.intervals import Interval

FEWEST = 3
"""Smallest number of items whose order can agree or not."""
FEWEST_RESAMPLED = 8
"""Smallest number of items with an interval: of 3 normal pairs, 95 % bootstrap intervals hold the truth half the time
and are often a single point; from 8 on more than 90 % of the time."""


class Agreement(NamedTuple):
    """Rank correlations of two lists of values of the same items; 1: the same order, −1: the reverse."""

    n: int
    kendall: Interval
    spearman: Interval
    p_value: float
    """Two-sided p-value of Kendall's tau under independence: exact for few items without ties."""


def rank_agreement(
    a: ArrayLike, b: ArrayLike, *, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> Agreement:
    """Return Kendall's tau-b and Spearman's rho of two lists of values, with percentile intervals over the items.

    Items are resampled together. A resample in which all values of a list are equal has no order and is left out; if
    a list itself has none, the values are NaN. Bounds are NaN where the bootstrap says nothing: with fewer than 8
    items, and for the same or the reverse order, which all resamples share; `p_value` is exact there without ties.
    """
    from scipy.stats import kendalltau  # takes long to import, and a run needs none of it

    x, y = as_scores(a, "first"), as_scores(b, "second")
    if x.size != y.size or x.size < FEWEST:
        raise ValueError(f"got {x.size} and {y.size} values, expected as many of both, at least {FEWEST}")
    tail = (1 - as_fraction(level, "level")) / 2
    rng = np.random.default_rng(seed)
    samples = rng.integers(x.size, size=(resamples, x.size)) if x.size >= FEWEST_RESAMPLED else ()
    drawn = [_correlations(x[rows], y[rows]) for rows in samples]
    known = [pair for pair in drawn if not np.isnan(pair).any()]
    kendall, spearman = (
        _interval(value, [pair[place] for pair in known], tail) for place, value in enumerate(_correlations(x, y))
    )
    return Agreement(x.size, kendall, spearman, float(kendalltau(x, y).pvalue))


def _correlations(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Return tau-b and rho; NaN if all values of a list are equal."""
    signs = np.sign(x[:, None] - x), np.sign(y[:, None] - y)
    ranks = [part - part.mean() for part in (_ranks(x), _ranks(y))]
    return _cosine(*signs), _cosine(*ranks)


def _ranks(values: FloatArray) -> FloatArray:
    """Return ranks from 1; equal values share their mean rank."""
    ascending = np.sort(values)
    return (np.searchsorted(ascending, values, "left") + np.searchsorted(ascending, values, "right") + 1) / 2


def _cosine(a: FloatArray, b: FloatArray) -> float:
    norm = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / norm if norm else float("nan")


def _interval(value: float, drawn: list[float], tail: float) -> Interval:
    if np.isnan(value) or not drawn or np.ptp(drawn) < 1e-9:
        return Interval(value, float("nan"), float("nan"))
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(value, min(value, float(low)), max(value, float(high)))


class Agreements(NamedTuple):
    """Kendall's tau-b of all pairs of several lists of values of the same items, with its intervals; all [S, S]."""

    tau: FloatArray
    low: FloatArray
    high: FloatArray


def rank_agreements(
    values: ArrayLike, *, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> Agreements:  # values: [S, D]
    """Return the tau of every pair of S lists of D items, with the intervals of `rank_agreement` (NaN: none)."""
    lists = [as_scores(one, "listed") for one in np.asarray(values, np.float64)]
    if len(lists) < 2 or lists[0].size < FEWEST:
        raise ValueError(f"got values of shape {np.shape(values)}, expected two lists of at least {FEWEST} items")
    signs = np.stack([np.sign(one[:, None] - one) for one in lists]).astype(np.int8)
    tail = (1 - as_fraction(level, "level")) / 2
    tau, items = _taus(signs), lists[0].size
    samples = np.random.default_rng(seed).integers(items, size=(resamples, items))
    if items < FEWEST_RESAMPLED or not len(samples):
        return Agreements(tau, np.full_like(tau, np.nan), np.full_like(tau, np.nan))
    drawn = np.stack([_taus(signs[:, rows][:, :, rows]) for rows in samples])
    drawn[:, ~np.isfinite(drawn).any(0) | np.isnan(tau)] = 0  # no interval: see the next line
    none = np.nanmax(drawn, 0) - np.nanmin(drawn, 0) < 1e-9
    low, high = np.nanquantile(drawn, [tail, 1 - tail], axis=0)
    return Agreements(tau, np.where(none, np.nan, np.fmin(tau, low)), np.where(none, np.nan, np.fmax(tau, high)))


def _taus(signs: NDArray[np.int8]) -> FloatArray:  # [S, D, D] -> [S, S]
    """Return the cosines of the lists' signs; NaN for a list whose values are all equal."""
    flat = signs.reshape(len(signs), -1).astype(np.float64)
    products = flat @ flat.T
    lengths = np.sqrt(np.diag(products))
    with np.errstate(invalid="ignore"):
        return np.asarray(products / (lengths[:, None] * lengths))


class Representatives(NamedTuple):
    """Few lists whose mean rank of the items is closest to the ranks of all others."""

    chosen: tuple[int, ...]
    mean: float
    """Mean tau of their mean rank with the other lists."""
    worst: float
    worst_at: int
    """Lowest of these taus, and the list that has it."""


MOST_SETS = 5000
"""Largest number of sets of lists that are all tried; of more, one list after the other is added."""


def representatives(values: ArrayLike, most: int = 3) -> list[Representatives]:
    """Return the best sets of 1, 2, … `most` lists [S, D] by their mean tau with the others, which must be any.

    All sets of a size are tried if there are at most `MOST_SETS`; else the best smaller set is extended.
    """
    lists = np.asarray(values, np.float64)
    ranks, count = np.stack([_ranks(one) for one in lists]), len(lists)
    best: list[Representatives] = []
    for size in range(1, min(most, count - 1) + 1):
        if comb(count, size) <= MOST_SETS:
            sets: Iterable[tuple[int, ...]] = combinations(range(count), size)
        else:
            sets = [(*best[-1].chosen, one) for one in range(count) if one not in best[-1].chosen]
        best.append(max((_represented(ranks, one) for one in sets), key=lambda one: one.mean))
    return best


def _represented(ranks: FloatArray, chosen: tuple[int, ...]) -> Representatives:
    means = ranks[list(chosen)].mean(0)
    signs = [np.sign(one[:, None] - one).ravel() for one in (means, *ranks)]
    others = [place for place in range(len(ranks)) if place not in chosen]
    taus = np.nan_to_num([_cosine(signs[0], signs[1 + place]) for place in others])
    return Representatives(chosen, float(taus.mean()), float(taus.min()), others[int(taus.argmin())])
