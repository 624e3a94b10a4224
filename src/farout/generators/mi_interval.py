"""Interval of mutual information that Near-OoD images must lie in: the published ones, and the rule behind them.

"Raising the Bar on the Evaluation of Out-of-Distribution Detection": the lower bound is the lowest value that minimizes
the overlap between the mutual information (MI) of validation images and of generated images; upper = lower + 0.4. The
paper gives no algorithm. Ours: lower bounds τ = 0, 0.1, 0.2, …; the overlap O(τ) is the sum over bins of
min(validation, generated), both as fractions, the generated ones of those in [τ, τ + 0.4] alone; the result is the
smallest τ with O(τ) ≤ min O + 0.02, so that a negligible gain in overlap does not discard half of the images.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from farout.registry import unknown

STEP = 0.1
"""Distance of two lower bounds that are compared, and width of the bins, in nats."""
BINS = 4
"""Bins of an interval: its width is 0.4 nats."""
TOLERANCE = 0.02
"""Largest excess over the smallest overlap at which a lower bound is accepted."""


class MIInterval(NamedTuple):
    """Closed interval of mutual information, in nats."""

    low: float
    high: float

    def contains(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return True for the values inside."""
        return (values >= self.low) & (values <= self.high)

    def __str__(self) -> str:
        return f"[{self.low:g}, {self.high:g}]"


PUBLISHED = {
    "mnist": MIInterval(0.1, 0.5),
    "cifar10": MIInterval(0.2, 0.6),
    "cifar100": MIInterval(0.4, 0.8),
    "imagenet": MIInterval(0.4, 0.8),
}
"""Intervals of the paper, by the data set of the inliers."""
AUTO = "auto"
"""Name of the interval that the rule selects from the images themselves."""


def parse_interval(value: str | Sequence[float]) -> MIInterval | None:
    """Return an interval from the name of a published one or from two numbers; None for "auto"."""
    if isinstance(value, str):
        if value != AUTO and value not in PUBLISHED:
            raise unknown("interval", value, [AUTO, *PUBLISHED])
        return PUBLISHED.get(value)
    numbers = list(value)
    if len(numbers) != 2 or not 0 <= numbers[0] < numbers[1]:
        raise ValueError(f"interval: expected two numbers from 0 on in ascending order, [0.1, 0.5], got {value!r}")
    return MIInterval(float(numbers[0]), float(numbers[1]))


def select_interval(validation: ArrayLike, generated: ArrayLike) -> MIInterval:
    """Return the interval that the paper's rule selects, from the MI of validation and of generated images."""
    overlaps = overlap_by_bound(validation, generated)
    lowest = int(np.flatnonzero(overlaps <= np.nanmin(overlaps) + TOLERANCE)[0])
    return MIInterval(_bound(lowest), _bound(lowest + BINS))


def overlap_by_bound(validation: ArrayLike, generated: ArrayLike) -> NDArray[np.float64]:
    """Return O(τ) for τ = 0, 0.1, … up to the largest value; NaN where no generated image lies in the interval."""
    mine, theirs = _bins(validation, "validation"), _bins(generated, "generated")
    length = max(mine.max(), theirs.max()) + 1 + BINS
    known, made = (np.bincount(bins, minlength=length) / len(bins) for bins in (mine, theirs))
    overlaps = np.full(length - BINS, np.nan)
    for start in range(len(overlaps)):
        part = slice(start, start + BINS)
        if share := made[part].sum():
            overlaps[start] = np.minimum(known[part], made[part] / share).sum()
    return overlaps


def _bins(values: ArrayLike, what: str) -> NDArray[np.int64]:
    """Return the bin of every value; values at a bound, up to rounding, belong to the bin above it."""
    array = np.asarray(values, np.float64)
    if not array.size or not np.isfinite(array).all():
        raise ValueError(f"the MI of {what} images must be finite numbers, at least one, got {array.size} values")
    return np.floor(array.clip(0) / STEP + 1e-9).astype(np.int64)


def _bound(number: int) -> float:
    return round(number * STEP, 10)
