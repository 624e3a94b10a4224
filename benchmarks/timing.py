"""Timing: after a warm-up, several times in turn; median and spread."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np


class Time(NamedTuple):
    """Median seconds, and half the distance between the quartiles as a share of the median."""

    seconds: float
    spread: float


def timed(functions: Mapping[str, Callable[[], object]], repeats: int = 5) -> dict[str, Time]:
    """Time functions in turn, so that a busy moment of the machine hits them all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            seconds[name].append(time.perf_counter() - start)
    return {name: _summary(values) for name, values in seconds.items()}


def _summary(values: list[float]) -> Time:
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
    return Time(float(median), float((high - low) / 2 / median))


def show(title: str, times: Mapping[str, Time], reference: str) -> None:
    """Print times as multiples of the reference's."""
    print(f"\n{title}\n{'':<44}{'× reference':>12}{'seconds':>10}{'spread':>8}")
    for name, time_ in times.items():
        ratio = time_.seconds / times[reference].seconds
        mark = " (reference)" if name == reference else ""
        print(f"{name + mark:<44}{ratio:>12.2f}{time_.seconds:>10.3f}{time_.spread:>8.0%}")
