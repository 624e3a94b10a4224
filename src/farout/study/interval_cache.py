"""Bootstrap intervals of a run, kept beside its results, so that the next report need not compute them again.

An entry is found by a hash of all that it depends on: the scores themselves, the metric with its options, and the
parameters of the bootstrap. If a score changes, the old entry is not found. The estimate is always computed from the
scores; only the bounds are kept. A damaged file is named in a warning and counts as absent; bounds that do not enclose
the estimate are computed again. Within these limits the file can be forged, as anything in a folder that its owner
sends: a report shows the bounds that it holds, so whoever checks a stranger's run must remove it first, or compute
intervals without it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farout.files import has_file
from farout.identity import digest, digest_arrays
from farout.metrics import Interval, bootstrap_intervals
from farout.metrics.bootstrap import Metric, Name
from farout.study.records import Damaged, read_verified_json, write_verified_json

FILE = "intervals.json"
VERSION = 3
"""Version of the bootstrap: to be increased when `bootstrap_intervals` or a metric gives other numbers."""


class IntervalCache:
    """Bootstrap intervals by a hash of their inputs. Several threads may use it."""

    def __init__(self, root: Path) -> None:
        self._path = root / FILE
        self._stored = _read(self._path)
        self._used: dict[str, list[float]] = {}

    def bootstrap(
        self,
        metrics: Mapping[Name, Metric],
        inliers: NDArray[np.float64],
        outliers: NDArray[np.float64],
        *,
        resamples: int = 1000,
        copied: NDArray[np.int64] | None = None,
    ) -> dict[Name, Interval]:
        """Return the intervals of `bootstrap_intervals`; those that are kept are not computed."""
        scores = digest_arrays([("inliers", inliers), ("outliers", outliers), ("copied", _array(copied))])
        keys = {name: digest([VERSION, _described(metric), scores, resamples]) for name, metric in metrics.items()}
        found = {name: self._find(keys[name], metric, inliers, outliers) for name, metric in metrics.items()}
        if missing := {name: metric for name, metric in metrics.items() if found[name] is None}:
            found |= bootstrap_intervals(missing, inliers, outliers, resamples=resamples, copied=copied)
        intervals = {name: interval for name, interval in found.items() if interval is not None}
        self._used |= {keys[name]: [interval.low, interval.high] for name, interval in intervals.items()}
        return intervals

    def _find(
        self, key: str, metric: Metric, inliers: NDArray[np.float64], outliers: NDArray[np.float64]
    ) -> Interval | None:
        """Return the metric's value with the bounds that are kept; None if there are none, or it is outside of them."""
        bounds = self._used.get(key) or self._stored.get(key)
        if not (isinstance(bounds, list) and len(bounds) == 2 and all(isinstance(bound, float) for bound in bounds)):
            return None
        value = metric(inliers, outliers)
        return Interval(float(value), *bounds) if bounds[0] <= value <= bounds[1] else None

    def save(self, finished: bool = True) -> None:
        """Write the intervals, if some are new; a folder that cannot be written is left as it is.

        finished: no more are asked for, so that those of the file that were not used are left out.
        """
        kept = self._used if finished else {**self._stored, **self._used}
        if kept != self._stored:
            with suppress(OSError):
                write_verified_json(self._path, kept)


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_verified_json(path) if has_file(path) else {}
    except Damaged as error:
        logging.getLogger("farout").warning(f"{error}: intervals are computed again")
    except OSError:  # a symbolic link, or not readable
        pass
    return {}


def _array(copied: NDArray[np.int64] | None) -> NDArray[np.int64]:
    return np.full(1, -1) if copied is None else copied


def _described(metric: Metric) -> list[Any]:
    """Return the name of a metric and its options."""
    if isinstance(metric, partial):
        return [*_described(metric.func), dict(metric.keywords)]
    return [getattr(metric, "__name__", "")]
