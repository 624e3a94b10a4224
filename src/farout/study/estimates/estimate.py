"""Estimate of a run: hours, memory and disk, and how much of it rests on rough rates."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from farout.study.cells.attack import AttackWork
from farout.study.cells.cell import Work
from farout.study.cells.fit import FitWork
from farout.study.cells.generate import GenerateWork
from farout.study.cells.score import ScoreWork
from farout.study.cells.search import SearchWork
from farout.study.estimates.calibration import SECONDS, Calibration, calibrate
from farout.study.estimates.demands import demands

RANGE = 3
"""Factor that is told with an estimate; `benchmarks/plan.py` compares estimates of small studies with their runs."""
KINDS = {
    "pass": "passes", "training": "training", "gradient": "attacks", "score": "detectors", "fit": "fitting",
    "decode": "search images", "shift": "shifts of images", "other": "other work", "result": "storing results",
}  # fmt: skip
"""Names of the kinds of parts in texts."""
AS_FAST = "if its nodes are as fast as this machine"
NOT_HERE = "by rough rates, since this machine has no such device"
GPU_UNKNOWN = "; GPU hours are not known here: plan with --device cuda on a machine that has one"
PER_RESULT, PER_ROW, EXAMPLES = 6_000, 24, 16
"""Bytes of the record of a result and of a row of its table, and the number of small images stored with it."""


@dataclass
class Estimate:
    """Estimate of what the missing pieces of work will take."""

    works: int
    seconds: dict[str, float] = field(default_factory=dict)
    """By kind of part: seconds of one core, or of the device."""
    rough: float = 0.0
    """Seconds among them that rest on rough rates."""
    memory: float = 0.0
    """Bytes of the largest table of activations that is collected."""
    disk: float = 0.0
    process: float = 0.0
    """Bytes of this process at its largest, in which the parts were tried out: about what a worker needs."""
    took: float = 0.0
    """Seconds of the calibration."""
    parts: int = 0
    """Number of parts that were measured."""

    @property
    def total(self) -> float:
        """Seconds of one core, or of the device."""
        return math.fsum(self.seconds.values())

    def lines(self, workers: int, device: str, engine: str = "local") -> Iterator[str]:
        """Yield the estimate as text."""
        local, cpu = engine == "local", device == "cpu"
        shares = sorted(((seconds, kind) for kind, seconds in self.seconds.items() if seconds), reverse=True)
        split = ", ".join(f"{KINDS[kind]} {seconds / self.total:.0%}" for seconds, kind in shares)
        yield (
            f"estimate of what is missing, to about a factor of {RANGE}, from trying out {self.parts} parts of the "
            f"work on synthetic images for {self.took:.0f} s:"
        )
        yield f"  time    {span(self.total)} of one {'core' if cpu else device} of this machine ({split})"
        if local and workers > 1 and cpu:
            yield f"          {span(self.total / workers)} with --workers {workers}, if as many cores are free"
        if not local:
            hours = f"{short(self.total / 3600)} {hours_unit(device)} with --engine {engine}"
            here = self.parts or cpu
            yield f"          {hours}, {AS_FAST if here else NOT_HERE}{GPU_UNKNOWN if cpu else ''}"
        workers = workers if local and cpu else 1
        processes = self.process * max(1, workers) + self.memory
        tables = f" and {size(self.memory)} for activations to fit on" if self.memory else ""
        yield f"  memory  {size(processes)}: {size(self.process)} per process{tables}"
        yield f"  disk    {size(self.disk)} for results"
        if self.total and self.rough > 0.01 * self.total:
            yield (
                f"  {self.rough / self.total:.0%} of the time is a rough guess, of what cannot be tried out before the "
                "run (such as detectors that read images) or was not within the time limit"
            )


def hours_unit(device: str) -> str:
    """Return the unit of the hours on a device."""
    return "core hours" if torch.device(device).type == "cpu" else "GPU hours"


def calibrate_works(works: Sequence[Work], device: torch.device, limit: float = SECONDS) -> Calibration:
    """Try out the parts of the works on this machine."""
    return calibrate((demand for work in works for demand in demands(work)), device, limit=limit)


def estimate(works: Sequence[Work], device: torch.device, limit: float = SECONDS) -> Estimate:
    """Try out the parts of the works, and return the estimate of all works."""
    return add_up(works, calibrate_works(works, device, limit))


def add_up(works: Iterable[Work], calibration: Calibration) -> Estimate:
    """Return the estimate of the works from these measurements."""
    works = list(works)
    total = Estimate(len(works), took=calibration.took, parts=len(calibration.measured), process=_largest())
    for work in works:
        table = 0.0
        for demand in demands(work):
            seconds = calibration.seconds(demand)
            total.seconds[demand.part.kind] = total.seconds.get(demand.part.kind, 0.0) + seconds
            total.rough += 0.0 if demand.part in calibration.measured else seconds
            held = calibration.held(demand)
            table += held * demand.units if demand.part.kind == "pass" and isinstance(work, FitWork) else 0.0
            total.disk += held if demand.part.kind in ("fit", "training") else 0.0
        total.memory = max(total.memory, table)
        total.disk += _stored(work)
    return total


def seconds_of(work: Work, calibration: Calibration | None = None) -> float:
    """Return the estimated seconds of one piece of work; by rough rates without measurements."""
    known = calibration or Calibration({})
    return math.fsum(known.seconds(demand) for demand in demands(work))


def _stored(work: Work) -> float:
    """Return the bytes of the results of a work, apart from fitted states and weights."""
    total, cell = len(work.cells) * PER_RESULT, work.cells[0]
    images: Any = getattr(cell, "images", None)
    pixels = math.prod(images.about.shape) if images is not None else 0
    if isinstance(work, ScoreWork):
        total += len(work.cells) * (images.about.total * PER_ROW + EXAMPLES * pixels)
    elif isinstance(work, AttackWork):
        total += images.about.total * (4 * pixels + PER_ROW)
    elif isinstance(work, GenerateWork):
        total += cell.total * math.prod(cell.shape)
    elif isinstance(work, SearchWork):
        total += cell.chains * (8 * cell.variation.dim + 3 * PER_ROW) + 2 * EXAMPLES * pixels
    return float(total)


def _largest() -> float:
    """Return the largest memory of this process so far, in bytes; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        return 0.0
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(largest if sys.platform == "darwin" else largest * 1024)


def span(seconds: float) -> str:
    """Return a duration as text, with the digits that an estimate deserves."""
    units: Mapping[str, float] = {"days": 86_400, "hours": 3_600, "minutes": 60}
    for unit, length in units.items():
        if seconds >= 2 * length:
            return f"about {short(seconds / length)} {unit}"
    return f"about {math.ceil(seconds)} s"


def size(count: float) -> str:
    """Return a number of bytes as text."""
    for unit, length in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= length:
            return f"{short(count / length)} {unit}"
    return f"{math.ceil(count / 1e3)} kB"


def short(value: float) -> str:
    """Return a number with two digits, or without decimals if it is larger."""
    return f"{value:.2g}" if value < 99.5 else f"{value:,.0f}"
