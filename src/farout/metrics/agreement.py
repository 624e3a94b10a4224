"""Agreement of two rankings of the same items: Kendall's tau and Spearman's rho, with bootstrap intervals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import kendalltau, rankdata

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
    ranks = [part - part.mean() for part in (rankdata(x), rankdata(y))]
    return _cosine(*signs), _cosine(*ranks)


def _cosine(a: FloatArray, b: FloatArray) -> float:
    norm = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / norm if norm else float("nan")


def _interval(value: float, drawn: list[float], tail: float) -> Interval:
    if np.isnan(value) or not drawn or np.ptp(drawn) < 1e-9:
        return Interval(value, float("nan"), float("nan"))
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(value, min(value, float(low)), max(value, float(high)))
