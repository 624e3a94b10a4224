"""Threshold metrics of resampled scores, compiled: one pass over the distinct scores of every resample.

All functions take counts by distinct score of one side and of the other, [R, K] each, in the order in which a falling
or a rising threshold passes them, and return one value per resample.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from farout.compiling import compiled

Counts = NDArray[np.int64]


@compiled
def twice_u(lower: Counts, upper: Counts) -> Counts:
    """Return twice the number of pairs whose upper score is the larger one; ties count half."""
    found = np.zeros(len(lower), np.int64)
    for r in range(lower.shape[0]):
        below = 0
        for k in range(lower.shape[1]):
            found[r] += upper[r, k] * (2 * below + lower[r, k])
            below += lower[r, k]
    return found


@compiled
def summed_precision(hits: Counts, misses: Counts) -> NDArray[np.float64]:
    """Return the sum over hits of the precision at their threshold."""
    found = np.zeros(len(hits))
    for r in range(hits.shape[0]):
        retrieved, right, total = 0, 0, 0.0
        for k in range(hits.shape[1]):
            right += hits[r, k]
            retrieved += hits[r, k] + misses[r, k]
            total += hits[r, k] * (right / max(retrieved, 1))
        found[r] = total
    return found


@compiled
def passed_with(kept: Counts, passed: Counts, needed: int) -> Counts:
    """Return how many of `passed` the first threshold passes that keeps at least `needed` of `kept`."""
    found = np.zeros(len(kept), np.int64)
    for r in range(kept.shape[0]):
        k, held = 0, 0
        while held < needed:
            held += kept[r, k]
            found[r] += passed[r, k]
            k += 1
    return found


@compiled
def best_balance(lower: Counts, upper: Counts, n: int, m: int) -> Counts:
    """Return the largest m · #{lower <= t} + n · #{upper > t} over all thresholds t, for n lower and m upper scores."""
    found = np.zeros(len(lower), np.int64)
    for r in range(lower.shape[0]):
        balance = best = n * m
        for k in range(lower.shape[1]):
            balance += m * lower[r, k] - n * upper[r, k]
            best = max(best, balance)
        found[r] = best
    return found


@compiled
def below_first(lower: Counts, upper: Counts) -> Counts:
    """Return how many lower scores are strictly below the first upper score."""
    found = np.zeros(len(lower), np.int64)
    for r in range(lower.shape[0]):
        k = 0
        while upper[r, k] == 0:
            found[r] += lower[r, k]
            k += 1
    return found
