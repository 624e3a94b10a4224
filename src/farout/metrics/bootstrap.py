"""Bootstrap intervals for any metric of inlier and outlier scores."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cache, partial
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from farout.metrics import detection
from farout.metrics.counts import Counts, FloatArray, IntArray, as_fraction, as_scores, distinct_scores
from farout.metrics.intervals import Interval, clopper_pearson_bounds

Metric = Callable[..., float]
CountMetric = Callable[..., FloatArray]
Name = TypeVar("Name", bound=Hashable)

_BLOCK = 2**17  # scores or bins resampled at once: what the cache of a core holds
_EXACT = 2**14  # scores up to which every distinct score is a bin of its own
_BINS = 2**12
_COUNTED = 8  # scores per bin up to which drawing them one by one is faster than a multinomial draw over the bins

_ON_COUNTS: tuple[tuple[Metric, CountMetric], ...] = (
    (detection.auroc, detection.auroc_of),
    (detection.aupr, detection.aupr_of),
    (detection.fpr_at_95_id_recall, detection.fpr_at_95_id_recall_of),
    (detection.fpr_at_95_ood_recall, detection.fpr_at_95_ood_recall_of),
    (detection.detection_accuracy, detection.detection_accuracy_of),
    (detection.min_rank, detection.min_rank_of),
)


def bootstrap_interval(
    metric: Metric,
    inliers: ArrayLike,
    outliers: ArrayLike,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """Return the percentile bootstrap interval of `metric(inliers, outliers)`, sides resampled separately (Efron 1979).

    Pass options of the metric by `functools.partial(aupr, positive="inlier")`; see `bootstrap_intervals`.
    """
    metrics = {"metric": metric}
    return bootstrap_intervals(metrics, inliers, outliers, level=level, resamples=resamples, seed=seed)["metric"]


def bootstrap_intervals(
    metrics: Mapping[Name, Metric],
    inliers: ArrayLike,
    outliers: ArrayLike,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    copied: ArrayLike | None = None,
) -> dict[Name, Interval]:
    """Return bootstrap intervals of several metrics from the same resamples.

    copied: for outliers that are changed copies of inliers, such as attacked images: outlier k is a copy of inlier
    copied[k]. An inlier and its copy are then drawn together; inliers without a copy are drawn separately.

    For the threshold metrics of this package the scores are sorted once and their counts resampled; any other
    function is called once per resample. Resamples are drawn in blocks, so memory stays within tens of megabytes.
    From about 16,000 scores on, neighboring scores share a bin and the counts of bins are resampled (a multinomial
    draw, which is equivalent): time no longer grows with the number of scores. The deviations from the binned value,
    which the bins change by at most 1/4096, are centered on the exact value.

    The interval is widened if needed to contain the value. If a rate is 0 or 1 in every resample, such as the FPR of
    fully separated scores, the interval is Clopper and Pearson's for min(n, m) trials: no error among 100 images does
    not prove an error rate of 0. For an extreme value such as `min_rank` the interval is a rough guide.
    """
    x, y = as_scores(inliers, "inlier"), as_scores(outliers, "outlier")
    tail = (1 - as_fraction(level, "level")) / 2
    if isinstance(resamples, bool) or not isinstance(resamples, int | np.integer) or resamples < 1:
        raise ValueError(f"resamples is {resamples!r}, expected a whole number of at least 1; pass for example 1000")
    for name, metric in metrics.items():
        if not callable(metric):
            raise TypeError(f"{name}: expected a metric, a function of inlier and outlier scores, got {metric!r}")
    values = {name: float(metric(x, y)) for name, metric in metrics.items()}
    _keep_freed_memory()
    draws = _Separate(x.size, y.size) if copied is None else _Paired.of(x.size, _check_copied(copied, x.size, y.size))
    statistics = _statistics(metrics, x, y, draws, resamples, seed)
    bounds = {name: np.quantile(statistics[name] + values[name], [tail, 1 - tail]) for name in metrics}
    return {name: _interval(metrics[name], values[name], bounds[name], min(x.size, y.size), tail) for name in metrics}


@cache
def _keep_freed_memory() -> None:
    """Free a large block once: glibc keeps up to twice the largest freed block, instead of returning every array.

    Otherwise the memory of every block of resamples is mapped anew, which takes longer than to compute with it.
    """
    np.empty(2**24, np.uint8)


def _interval(metric: Metric, value: float, bounds: FloatArray, trials: int, tail: float) -> Interval:
    low, high = map(float, bounds)
    if low == high == value in (0.0, 1.0) and _is_rate(metric):
        low, high = clopper_pearson_bounds(value, trials, tail)
    if _is_rate(metric):
        low, high = max(low, 0.0), min(high, 1.0)
    return Interval(value, min(value, low), max(value, high))


def _statistics(
    metrics: Mapping[Name, Metric], x: FloatArray, y: FloatArray, draws: "_Draws", resamples: int, seed: int
) -> dict[Name, FloatArray]:
    """Return per metric the deviation of each resample's value from the value of all scores."""
    deviations: dict[Name, list[FloatArray]] = {name: [] for name in metrics}
    counted = {name: on_counts for name, metric in metrics.items() if (on_counts := _on_counts(metric)) is not None}
    others = {name: metric for name, metric in metrics.items() if name not in counted}
    if counted:
        x_bins, y_bins, bins = _binned(x, y)
        whole = Counts(*(np.bincount(bin_numbers, minlength=bins)[None] for bin_numbers in (x_bins, y_bins)))
        values = {name: on_counts(whole) for name, on_counts in counted.items()}
        for size, rngs in _blocks(resamples, bins, seed):
            drawn = Counts(*draws.counts(x_bins, y_bins, bins, size, *rngs))
            for name, on_counts in counted.items():
                deviations[name].append(on_counts(drawn) - values[name])
    if others:
        exact = {name: metric(x, y) for name, metric in others.items()}
        for size, rngs in _blocks(resamples, x.size + y.size, seed):
            i, j = draws.indices(size, *rngs)
            for name, metric in others.items():
                resampled = [metric(x[row], y[column]) for row, column in zip(i, j, strict=True)]
                deviations[name].append(np.array(resampled) - exact[name])
    return {name: np.concatenate(parts) for name, parts in deviations.items()}


def _blocks(resamples: int, width: int, seed: int) -> Iterator[tuple[int, list[np.random.Generator]]]:
    """Yield the number of resamples per block and one generator per side; draws do not depend on the blocks."""
    rngs = np.random.default_rng(seed).spawn(2)
    rows = max(1, _BLOCK // width)
    return ((min(rows, resamples - start), rngs) for start in range(0, resamples, rows))


def _binned(x: FloatArray, y: FloatArray) -> tuple[IntArray, IntArray, int]:
    """Return the bin of every score: one per distinct score, or, if these are too many, bins of about equal size."""
    distinct = distinct_scores(np.sort(x), np.sort(y))
    x_place, y_place = np.searchsorted(distinct, x), np.searchsorted(distinct, y)
    bins = distinct.size
    if x.size + y.size > _EXACT and bins > _BINS:
        rank = np.cumsum(np.bincount(x_place, minlength=bins) + np.bincount(y_place, minlength=bins)) - 1
        place = rank * _BINS // (x.size + y.size)
        x_place, y_place, bins = place[x_place], place[y_place], _BINS
    return x_place, y_place, bins


class _Draws(Protocol):
    """Resampling scheme; `rng` draws inliers (or pairs), `other` draws outliers (or inliers without a copy)."""

    def counts(
        self, x: IntArray, y: IntArray, bins: int, size: int, rng: np.random.Generator, other: np.random.Generator
    ) -> tuple[IntArray, IntArray]:
        """Return counts by bin of resampled inliers and outliers, [size, bins] each, from the bin of every score."""

    def indices(self, size: int, rng: np.random.Generator, other: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Return indices of resampled inliers [size, n] and outliers [size, m]."""


class _Separate(NamedTuple):
    """Resampling of each side separately."""

    n: int
    m: int

    def counts(
        self, x: IntArray, y: IntArray, bins: int, size: int, rng: np.random.Generator, other: np.random.Generator
    ) -> tuple[IntArray, IntArray]:
        return _multinomial(x, bins, size, rng), _multinomial(y, bins, size, other)

    def indices(self, size: int, rng: np.random.Generator, other: np.random.Generator) -> tuple[IntArray, IntArray]:
        return rng.integers(self.n, size=(size, self.n)), other.integers(self.m, size=(size, self.m))


class _Paired(NamedTuple):
    """Resampling of pairs of an inlier and its copy, and of the inliers without a copy."""

    copied: IntArray
    rest: IntArray
    """Inliers without a copy."""

    @classmethod
    def of(cls, n: int, copied: IntArray) -> "_Paired":
        """Return the scheme for n inliers."""
        return cls(copied, np.setdiff1d(np.arange(n), copied))

    def counts(
        self, x: IntArray, y: IntArray, bins: int, size: int, rng: np.random.Generator, other: np.random.Generator
    ) -> tuple[IntArray, IntArray]:
        of_inliers, of_copies = _multinomial(x[self.rest], bins, size, other), np.zeros((size, bins), np.int64)
        pairs = rng.integers(len(y), size=(size, len(y)), dtype=np.int32)
        _tally(of_inliers, x[self.copied], pairs)
        _tally(of_copies, y, pairs)
        return of_inliers, of_copies

    def indices(self, size: int, rng: np.random.Generator, other: np.random.Generator) -> tuple[IntArray, IntArray]:
        m, rest = len(self.copied), self.rest
        pairs = rng.integers(m, size=(size, m))
        unpaired = (
            rest[other.integers(len(rest), size=(size, len(rest)))] if len(rest) else np.empty((size, 0), np.int64)
        )
        return np.concatenate([self.copied[pairs], unpaired], axis=1), pairs


def _multinomial(indices: IntArray, bins: int, size: int, rng: np.random.Generator) -> IntArray:
    """Return counts by bin of resamples of the same size, [size, bins].

    Few scores are drawn one by one and counted; many by one multinomial draw over the bins, which is equivalent.
    """
    n = len(indices)
    if n > _COUNTED * bins:
        return rng.multinomial(n, np.bincount(indices, minlength=bins) / n, size)
    counts = np.zeros((size, bins), np.int64)
    if n:
        _tally(counts, indices, rng.integers(n, size=(size, n), dtype=np.int32))
    return counts


def _tally(counts: IntArray, bins: IntArray, drawn: NDArray[np.int32]) -> None:
    from farout.metrics.tally import tally  # numba is slow to import

    tally(counts, bins, drawn)


def _check_copied(copied: ArrayLike, n: int, m: int) -> IntArray:
    indices = np.asarray(copied)
    if indices.shape != (m,) or len(np.unique(indices)) < m or not 0 <= indices.min() <= indices.max() < n:
        raise ValueError(f"copied must hold {m} different indices of the {n} inliers, one per outlier")
    return indices


def _on_counts(metric: Metric) -> CountMetric | None:
    """Return the form of a threshold metric that takes counts, with the options of a partial; None for others."""
    if isinstance(metric, partial) and not metric.args:
        on_counts = _on_counts(metric.func)
        return None if on_counts is None else partial(on_counts, **metric.keywords)
    return next((on_counts for plain, on_counts in _ON_COUNTS if plain is metric), None)


def _is_rate(metric: Metric) -> bool:
    """Return True for the metrics of this package that lie in [0, 1]."""
    plain = metric.func if isinstance(metric, partial) else metric
    return plain is not detection.min_rank and any(plain is known for known, _ in _ON_COUNTS)
