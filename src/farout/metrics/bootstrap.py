"""Bootstrap intervals for any metric of inlier and outlier scores."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from farout.metrics import detection
from farout.metrics.counts import Counts, FloatArray, IntArray, as_fraction, as_scores, distinct_scores
from farout.metrics.intervals import Interval, clopper_pearson_bounds

Metric = Callable[..., float]
CountMetric = Callable[..., FloatArray]

_BLOCK = 2**19  # scores or bins resampled at once
_EXACT = 2**14  # scores up to which every distinct score is a bin of its own
_BINS = 2**12

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
    """Percentile bootstrap of `metric(inliers, outliers)`, each side resampled on its own (Efron 1979).

    Options of the metric go in by `functools.partial(aupr, positive="inlier")`; see `bootstrap_intervals`.
    """
    given = {"metric": metric}
    return bootstrap_intervals(given, inliers, outliers, level=level, resamples=resamples, seed=seed)["metric"]


def bootstrap_intervals(
    metrics: Mapping[str, Metric],
    inliers: ArrayLike,
    outliers: ArrayLike,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Interval]:
    """Bootstrap intervals of several metrics from the same resamples.

    For the threshold metrics of this package the scores are sorted once and their counts resampled; any other
    function is called once per resample. Resamples are drawn in blocks, so memory stays within tens of megabytes.
    From some 16,000 scores on, neighbouring scores share a bin and bins are resampled (a multinomial draw, which is
    what resampling is): time no longer grows with the scores, and the deviations from the binned value, which the
    bins blur by 1/4096 at most, are put around the exact one.

    The interval is widened where needed to contain the value. Where a rate is 0 or 1 in every resample, such as the
    FPR of scores that are fully separated, it is Clopper and Pearson's for min(n, m) trials: no error among 100
    images does not mean no errors. For an extreme such as `min_rank` it is a rough guide.
    """
    x, y = np.sort(as_scores(inliers, "inlier")), np.sort(as_scores(outliers, "outlier"))
    tail = (1 - as_fraction(level, "level")) / 2
    if resamples < 1:
        raise ValueError(f"resamples is {resamples}, expected at least 1; pass for example 1000")
    values = {name: float(metric(x, y)) for name, metric in metrics.items()}
    statistics = _statistics(metrics, x, y, resamples, seed)
    bounds = {name: np.quantile(statistics[name] + values[name], [tail, 1 - tail]) for name in metrics}
    return {name: _interval(metrics[name], values[name], bounds[name], min(x.size, y.size), tail) for name in metrics}


def _interval(metric: Metric, value: float, bounds: FloatArray, trials: int, tail: float) -> Interval:
    low, high = map(float, bounds)
    if low == high == value in (0.0, 1.0) and _is_rate(metric):
        low, high = clopper_pearson_bounds(value, trials, tail)
    if _is_rate(metric):
        low, high = max(low, 0.0), min(high, 1.0)
    return Interval(value, min(value, low), max(value, high))


def _statistics(
    metrics: Mapping[str, Metric], x: FloatArray, y: FloatArray, resamples: int, seed: int
) -> dict[str, FloatArray]:
    """Per metric, how far each resample's value lies from the value of all scores."""
    found: dict[str, list[FloatArray]] = {name: [] for name in metrics}
    counted = {name: on_counts for name, metric in metrics.items() if (on_counts := _on_counts(metric)) is not None}
    others = {name: metric for name, metric in metrics.items() if name not in counted}
    if counted:
        x_counts, y_counts = _binned(x, y)
        whole = Counts(_cumulative(x_counts[None]), _cumulative(y_counts[None]))
        for drawn in _resampled_counts(x_counts, y_counts, resamples, seed):
            for name, on_counts in counted.items():
                found[name].append(on_counts(drawn) - on_counts(whole))
    if others:
        values = {name: metric(x, y) for name, metric in others.items()}
        for i, j in _draws(x.size, y.size, resamples, seed):
            for name, metric in others.items():
                resampled = [metric(x[row], y[column]) for row, column in zip(i, j, strict=True)]
                found[name].append(np.array(resampled) - values[name])
    return {name: np.concatenate(parts) for name, parts in found.items()}


def _binned(x: FloatArray, y: FloatArray) -> tuple[IntArray, IntArray]:
    """Counts per distinct score; where there are too many scores, per bin of about as many scores each."""
    distinct = distinct_scores(x, y)
    x_place, y_place = np.searchsorted(distinct, x), np.searchsorted(distinct, y)
    bins = distinct.size
    if x.size + y.size > _EXACT and bins > _BINS:
        rank = np.cumsum(np.bincount(x_place, minlength=bins) + np.bincount(y_place, minlength=bins)) - 1
        place = rank * _BINS // (x.size + y.size)
        x_place, y_place, bins = place[x_place], place[y_place], _BINS
    return np.bincount(x_place, minlength=bins), np.bincount(y_place, minlength=bins)


def _resampled_counts(x: IntArray, y: IntArray, resamples: int, seed: int) -> Iterator[Counts]:
    """Blocks of resampled cumulative counts [R, K + 1]. With a stream per side, draws do not depend on the block."""
    of_inliers, of_outliers = np.random.default_rng(seed).spawn(2)
    n, m = int(x.sum()), int(y.sum())
    rows = max(1, _BLOCK // len(x))
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        drawn = of_inliers.multinomial(n, x / n, size), of_outliers.multinomial(m, y / m, size)
        yield Counts(_cumulative(drawn[0]), _cumulative(drawn[1]))


def _draws(n: int, m: int, resamples: int, seed: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Blocks of indices [R, n] and [R, m]. With a stream per side, the draws do not depend on the block size."""
    of_inliers, of_outliers = np.random.default_rng(seed).spawn(2)
    rows = max(1, _BLOCK // (n + m))
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        yield of_inliers.integers(n, size=(size, n)), of_outliers.integers(m, size=(size, m))


def _on_counts(metric: Metric) -> CountMetric | None:
    """The form of a threshold metric that takes counts, with the options of a partial."""
    if isinstance(metric, partial) and not metric.args:
        on_counts = _on_counts(metric.func)
        return None if on_counts is None else partial(on_counts, **metric.keywords)
    return next((on_counts for plain, on_counts in _ON_COUNTS if plain is metric), None)


def _is_rate(metric: Metric) -> bool:
    """Is it one of this package's metrics that lie in [0, 1]?"""
    plain = metric.func if isinstance(metric, partial) else metric
    return plain is not detection.min_rank and any(plain is known for known, _ in _ON_COUNTS)


def _cumulative(counts: IntArray) -> IntArray:
    """Cumulative counts [R, K + 1] from counts [R, K]."""
    return np.concatenate([np.zeros((len(counts), 1), counts.dtype), counts.cumsum(axis=1)], axis=1)
