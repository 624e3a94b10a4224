"""Calibration: the seconds and bytes of parts, measured on synthetic images within a time limit.

Parts that were not measured count by their rough rates: those of a core, or of a GPU that is `GPU` times as fast.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch

from farout.devices import as_device
from farout.progress import task
from farout.study.estimates.demands import Demand
from farout.study.estimates.parts import Architecture, Part, forget

GPU = 30.0
"""Rough number of cores that a GPU replaces, where nothing could be tried out on it."""
SECONDS = 30.0
"""Time limit of a calibration."""
FITTED = (128, 512)
"""Numbers of images that a detector is fitted on, for the two trials that show how its time and its state grow."""
REPEATS, ENOUGH = 3, 0.5
"""Calls of a trial of which the fastest counts, and the seconds after which there are enough."""
LONG = 5.0
"""Seconds of a first call that counts itself. Shorter ones do not: they import and compile what they need."""


class Line(NamedTuple):
    """Value that grows linearly with the number of images a detector is fitted on."""

    base: float
    slope: float = 0.0

    @classmethod
    def through(cls, low: float, high: float) -> Line:
        """Return the line through the values at both sizes of `FITTED`; where they do not grow, a constant."""
        if high <= low:
            return cls(min(low, high))
        slope = (high - low) / (FITTED[1] - FITTED[0])
        return cls(max(0.0, low - slope * FITTED[0]), slope)

    def at(self, fitted: int) -> float:
        """Return the value for this number of images."""
        return self.base + self.slope * fitted


class Measured(NamedTuple):
    """Seconds per unit of a part, and the bytes that its trial shows."""

    seconds: Line
    held: Line = Line(0.0)


@dataclass
class Calibration:
    """Measurements by part; parts that were not measured count by their rough rate."""

    measured: dict[Part, Measured]
    took: float = 0.0
    """Seconds that the trials took."""
    reason: str = ""
    """First error of a trial that could not be run."""
    device: str = "cpu"
    """Type of the device."""

    def seconds(self, demand: Demand) -> float:
        """Return the seconds of one core, or of the device, that a demand takes."""
        found = self.measured.get(demand.part)
        if found is not None:
            return demand.units * found.seconds.at(demand.fitted)
        grown = max(1, demand.fitted) if demand.part.kind == "fit" else 1
        return demand.units * demand.part.rough * grown / (1.0 if self.device == "cpu" else GPU)

    def held(self, demand: Demand) -> float:
        """Return the bytes that the trial of a part shows; 0 if it was not measured."""
        found = self.measured.get(demand.part)
        return 0.0 if found is None else found.held.at(demand.fitted)


def calibrate(
    found: Iterable[Demand],
    device: torch.device,
    *,
    limit: float = SECONDS,
    clock: Callable[[], float] | None = None,
    elapsed: Callable[[], float] = time.monotonic,
) -> Calibration:
    """Measure the parts of these demands, the largest by rough rates first, until the time limit.

    If this machine lacks the device, as the login node of a cluster may, nothing is measured.
    clock: seconds of the work itself; on the CPU those that this process computes, which others on a busy machine do
    not prolong, since a run's workers have a core each.
    """
    try:
        as_device(str(device))
    except (ValueError, RuntimeError) as error:
        return Calibration({}, reason=str(error), device=device.type)
    clock, began = clock or _clock(device), elapsed()
    result = Calibration({}, device=device.type)
    parts = _by_size(found)
    with _one_thread(), task("trying out the parts of the run", len(parts), "parts") as progress:
        for part in parts:
            if elapsed() - began >= limit:
                break
            try:
                result.measured[part] = _measure(part, device, clock)
            except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:  # not on such images
                result.reason = result.reason or f"{part.name[:60]}: {error}"
            progress(1)
    forget()
    result.took = elapsed() - began
    return result


def _by_size(found: Iterable[Demand]) -> list[Part]:
    """Return the parts that can be tried out, those with the largest rough cost first: passes of networks, searches
    and attacks, then the detectors network by network, then shifts of images, which may have to be compiled."""
    sizes: dict[Part, float] = {}
    rough = Calibration({})
    for demand in found:
        if demand.part.trial is not None:
            sizes[demand.part] = sizes.get(demand.part, 0.0) + rough.seconds(demand)
    networks: dict[Architecture | None, float] = {None: math.inf}
    for part, seconds in sizes.items():
        networks[part.of] = networks.get(part.of, 0.0) + seconds
    return sorted(sizes, key=lambda part: (part.kind == "shift", -networks[part.of], str(part.of), -sizes[part]))


def _measure(part: Part, device: torch.device, clock: Callable[[], float]) -> Measured:
    low = _once(part, device, clock, FITTED[0])
    if not part.grows:
        return Measured(Line(low[0]), Line(low[1]))
    high = _once(part, device, clock, FITTED[1])
    grows = part.kind == "fit" or high[0] > 1.5 * low[0]  # less is noise
    seconds = Line.through(low[0], high[0]) if grows else Line(min(low[0], high[0]))
    return Measured(seconds, Line.through(low[1], high[1]))


def _once(part: Part, device: torch.device, clock: Callable[[], float], fitted: int) -> tuple[float, float]:
    """Return the shortest seconds per unit of a few calls, and the bytes."""
    assert part.trial is not None
    trial = part.trial(device, fitted)

    def timed() -> float:
        began = clock()
        trial.call()
        return clock() - began

    first, times = timed(), list[float]()
    while len(times) < REPEATS and sum(times) < ENOUGH and first < LONG:
        times.append(timed())
    return min(times or [first]) / trial.units, trial.held


def _clock(device: torch.device) -> Callable[[], float]:
    if device.type != "cuda":
        return time.process_time

    def synchronized() -> float:
        torch.cuda.synchronize(device)
        return time.perf_counter()

    return synchronized


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch use one thread within the block, as the workers of a run do."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
