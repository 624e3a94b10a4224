"""Bootstrap intervals for any metric of inlier and outlier scores."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from farout.metrics import detection
from farout.metrics.counts import Counts, FloatArray, IntArray, as_fraction, as_scores, distinct_scores
from farout.metrics.intervals import Interval, clopper_pearson_bounds

Metric = Callable[..., float]
CountMetric = Callable[..., FloatArray]

_BLOCK = 2**19  # scores resampled at once

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

    Options of the metric go in by `functools.partial(aupr, positive="inlier")`. For the threshold metrics of this
    package the scores are sorted once and their counts resampled; any other function is called once per resample.
    Resamples are drawn in blocks, so memory stays within some ten copies of the scores (200 MB for 1e6 a side), or
    tens of megabytes for small sets. The interval is widened where needed to contain the value. Where a rate is 0 or
    1 in every resample, such as the FPR of scores that are fully separated, it is Clopper and Pearson's for min(n, m)
    trials: no error among 100 images does not mean no errors. For an extreme such as `min_rank` it is a rough guide.
    """
    x, y = np.sort(as_scores(inliers, "inlier")), np.sort(as_scores(outliers, "outlier"))
    tail = (1 - as_fraction(level, "level")) / 2
    if resamples < 1:
        raise ValueError(f"resamples is {resamples}, expected at least 1; pass for example 1000")
    value = float(metric(x, y))
    blocks = _draws(x.size, y.size, resamples, seed)
    low, high = np.quantile(np.concatenate(list(_statistics(metric, x, y, blocks))), [tail, 1 - tail])
    if low == high == value in (0.0, 1.0) and _is_rate(metric):
        low, high = clopper_pearson_bounds(value, min(x.size, y.size), tail)
    return Interval(value, min(value, float(low)), max(value, float(high)))


def _draws(n: int, m: int, resamples: int, seed: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Blocks of indices [R, n] and [R, m]. With a stream per side, the draws do not depend on the block size."""
    of_inliers, of_outliers = np.random.default_rng(seed).spawn(2)
    rows = max(1, _BLOCK // (n + m))
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        yield of_inliers.integers(n, size=(size, n)), of_outliers.integers(m, size=(size, m))


def _statistics(
    metric: Metric, x: FloatArray, y: FloatArray, blocks: Iterator[tuple[IntArray, IntArray]]
) -> Iterator[FloatArray]:
    on_counts = _on_counts(metric)
    if on_counts is None:
        for i, j in blocks:
            yield np.array([metric(x[row], y[column]) for row, column in zip(i, j, strict=True)])
        return
    distinct = distinct_scores(x, y)
    x_place, y_place = np.searchsorted(distinct, x), np.searchsorted(distinct, y)
    for i, j in blocks:
        yield on_counts(Counts(_cumulative(x_place[i], distinct.size), _cumulative(y_place[j], distinct.size)))


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


def _cumulative(places: IntArray, distinct: int) -> IntArray:
    """Cumulative counts [R, K + 1] from each score's place [R, n] among the K distinct scores."""
    rows, columns = len(places), distinct + 1
    flat = places + (1 + columns * np.arange(rows)[:, None])
    counts = np.bincount(flat.ravel(), minlength=rows * columns).reshape(rows, columns)
    return counts.cumsum(axis=1)
