"""Comparison of two runs: differences of AUROC per detector and stress with intervals, in a table and in sentences."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pandas as pd

from farout.metrics import Interval
from farout.metrics.setups import independent_difference
from farout.protocols.judged import Judged, judged
from farout.study.results import Results
from farout.terminal import one_line

ERROR = 0.05
"""Probability that any of the intervals misses its true difference; each has this divided by their number."""


@dataclass(frozen=True)
class Difference:
    """AUROC of one detector minus that of another under one stress."""

    first: str
    second: str
    stress: str
    value: float
    low: float
    high: float
    paired: bool
    """True if both scored the same images; else the images count as independent samples."""

    def __str__(self) -> str:
        return one_line(self._sentence)

    @property
    def _sentence(self) -> str:
        where = f"on {self.stress}" + ("" if self.paired else "; different images, compared as independent samples")
        if self.low <= 0 <= self.high:
            bounds = f"{_short(self.value)} [{_short(self.low)}, {_short(self.high)}]"
            return f"{self.first} and {self.second} are not distinguishable: difference {bounds} {where}"
        ahead = self.value > 0
        better, worse = (self.first, self.second) if ahead else (self.second, self.first)
        low, high = (self.low, self.high) if ahead else (-self.high, -self.low)
        return f"{better} is better than {worse} by {_short(abs(self.value))} [{_short(low)}, {_short(high)}] {where}"


@dataclass(frozen=True)
class Compared:
    """Differences of AUROC between two runs."""

    differences: list[Difference]

    def table(self) -> pd.DataFrame:
        """Return a line per comparison with all digits."""
        return pd.DataFrame([vars(one) for one in self.differences])

    def __repr__(self) -> str:
        note = (
            f"differences of AUROC with 95 % intervals that hold for all {len(self.differences)} comparisons together "
            "(Bonferroni); DeLong's paired method where both scored the same images"
        )
        return "\n".join([note, *map(str, self.differences)])


def compare(first: Results, second: Results) -> Compared:
    """Return the differences of the detectors that both runs have; if they share none, of every pair of detectors."""
    a, b = judged(first), judged(second)
    pairs = [(one, other) for one, other in product(a, b) if one.stress == other.stress]
    if not pairs:
        raise ValueError(
            f"the runs share no stress with results of both: {_listed(a)} in {first.store.root}, {_listed(b)} in "
            f"{second.store.root}; compare runs with the same protocols, inliers and outliers"
        )
    same = [(one, other) for one, other in pairs if one.subject.detector == other.subject.detector]
    chosen = [(one, other) for one, other in same or pairs if _alike(one, other, same or pairs)]
    names = _names(first, second)
    return Compared([_difference(one, other, names, 1 - ERROR / len(chosen)) for one, other in chosen])


def _alike(one: Judged, other: Judged, pairs: list[tuple[Judged, Judged]]) -> bool:
    """Return True unless another pair of the same detectors also agrees in network and seed, and this one does not."""
    if one.subject[:2] == other.subject[:2]:
        return True
    return not any(
        a.subject[:2] == b.subject[:2] and a.stress == one.stress
        for a, b in pairs
        if one.subject.detector == a.subject.detector and other.subject.detector == b.subject.detector
    )


def _difference(one: Judged, other: Judged, names: tuple[str, str], level: float) -> Difference:
    paired = one.images == other.images
    if paired:
        found = (one.estimate - other.estimate).difference(level)
        interval = Interval(found.difference, found.low, found.high)
    else:
        interval = independent_difference(one.estimate, other.estimate, level)
    first, second = _label(one, other, names[0]), _label(other, one, names[1])
    return Difference(first, second, one.stress, *interval, paired=paired)


def _label(one: Judged, other: Judged, run: str) -> str:
    """Return the detector's label, with the run if the other has the same."""
    label = one.subject.detector
    return f"{label} of {run}" if label == other.subject.detector else label


def _names(first: Results, second: Results) -> tuple[str, str]:
    """Return the names of both runs; their folders if the names are equal."""
    if first.name != second.name:
        return first.name, second.name
    paths = [Path(run.store.root).absolute() for run in (first, second)]
    return (paths[0].name, paths[1].name) if paths[0].name != paths[1].name else (str(paths[0]), str(paths[1]))


def _listed(found: list[Judged], most: int = 3) -> str:
    names = list(dict.fromkeys(one.stress for one in found))
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) + more) if names else "none"


def _short(value: float) -> str:
    """Return a number with three digits and without the zero before the point."""
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3f}"
