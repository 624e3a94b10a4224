"""What `rood` has scored so far, as tests: inliers and their shifted copies against outliers, by one detector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from farout.metrics.setups import Estimate, flagged_share, mean, setup_auroc
from farout.protocols.pairs import Array
from farout.study.results import Results, Row

UNSHIFTED = "U"
"""The setup without shifts."""
OTHER_CLASSES, DEFECTS = "other classes", "defects"
"""What one-class tests have as outliers."""
OUTLIER = "outlier"
"""The attribute of images that are outliers to their own class, as defective ones are."""


class Who(NamedTuple):
    """A detector on a network of one seed."""

    network: str
    seed: str
    detector: str


class Copy(NamedTuple):
    """The inliers under one shift."""

    setup: str
    shift: str
    severity: str
    scores: Array
    row: Row


@dataclass(frozen=True)
class Test:
    """One detector, inliers with their shifted copies, and outliers."""

    who: Who
    of: str
    """The class that is the inlier; empty for all of them."""
    outliers: str
    inlier_scores: Array
    outlier_scores: Array
    copies: Sequence[Copy]
    planned: Mapping[str, int]
    """How many copies every setup has when the run is done."""
    places: NDArray[np.int64]
    """Of the inliers and then the outliers, among the `total` images of tests whose mean is taken."""
    total: int

    @cached_property
    def unshifted(self) -> Estimate:
        """AUROC(U)."""
        return self._estimate([])

    def setup(self, name: str) -> Estimate | None:
        """AUROC of a setup; None as long as one of its shifts is missing."""
        copies = [copy for copy in self.copies if copy.setup == name]
        return self._estimate(copies) if len(copies) == self.planned[name] else None

    def shifted(self, setup: str, shift: str, severity: str | None = None) -> list[Copy]:
        """The copies under one shift, of one severity or of all."""
        wanted = [copy for copy in self.copies if (copy.setup, copy.shift) == (setup, shift)]
        return [copy for copy in wanted if severity is None or copy.severity == severity]

    def auroc(self, copies: Sequence[Copy]) -> Estimate:
        """AUROC with these copies among the inliers."""
        return self._estimate(copies)

    def flagged(self, copies: Sequence[Copy]) -> Estimate:
        """The share of these copies above the threshold that keeps 95 % of the inliers as they are."""
        found = flagged_share(self.inlier_scores, [copy.scores for copy in copies])
        return found.among(self.places[: len(self.inlier_scores)], self.total)

    def _estimate(self, copies: Sequence[Copy]) -> Estimate:
        found = setup_auroc(self.inlier_scores, self.outlier_scores, [copy.scores for copy in copies])
        return found.among(self.places, self.total)


@dataclass(frozen=True)
class Tests:
    """The tests of one detector that make one line: one against an outlier set, or one per class."""

    who: Who
    outliers: str
    tests: Sequence[Test]
    expected: int

    @property
    def against(self) -> str:
        """What the line calls its outliers."""
        return f"{self.outliers}, mean of {self.expected}" if self.one_class else self.outliers

    @property
    def one_class(self) -> bool:
        return bool(self.tests[0].of)

    @property
    def whole(self) -> bool:
        """Are all classes there?"""
        return len(self.tests) == self.expected

    def mean(self, estimates: Sequence[Estimate | None]) -> Estimate | None:
        """The mean over the classes; None as long as something is missing."""
        there = [one for one in estimates if one is not None]
        return mean(there) if self.whole and len(there) == len(self.tests) else None


def read(results: Results, protocol: str) -> list[Tests]:
    """All lines in the order of the plan, with whatever is there."""
    planned = [row for row in results.rows if row.protocol == protocol]
    done = {id(row) for row in planned if results.store.has(row.cell)}
    lines: list[Tests] = []
    for who in dict.fromkeys(_who(row) for row in planned):
        mine = [row for row in planned if _who(row) == who]
        by_class: dict[str, list[Row]] = {}
        for row in mine:
            by_class.setdefault(row.tags["class"], []).append(row)
        found = [test for rows in by_class.values() for test in _tests(results, who, rows, done)]
        for outliers in dict.fromkeys(test.outliers for test in found):
            tests = [test for test in found if test.outliers == outliers]
            lines.append(Tests(who, outliers, tests, len(by_class) if tests[0].of else 1))
    return lines


def _tests(results: Results, who: Who, rows: Sequence[Row], done: set[int]) -> Iterator[Test]:
    """The tests of one detector and one class, or of all classes."""
    planned: dict[str, int] = {}
    for row in rows:
        if setup := row.tags["setup"]:
            planned[setup] = planned.get(setup, 0) + 1
    there = [row for row in rows if id(row) in done]
    clean = next((row for row in there if not row.tags["setup"] and not row.tags["outliers"]), None)
    if clean is None:
        return
    scores, shifted = results.scores(clean), [row for row in there if row.tags["setup"]]
    if label := clean.tags["label"]:
        yield _one_class(results, who, clean, int(label), shifted, planned)
        return
    copies = [_copy(row, results.scores(row)) for row in shifted]
    for row in there:
        if name := row.tags["outliers"]:
            outliers = results.scores(row)
            total = len(scores) + len(outliers)
            yield Test(who, "", name, scores, outliers, copies, planned, np.arange(total), total)


def _one_class(
    results: Results, who: Who, clean: Row, label: int, shifted: Sequence[Row], planned: Mapping[str, int]
) -> Test:
    scores, labels = results.scores(clean), results.labels(clean)
    mine, own = labels == label, results.known(clean, OUTLIER)
    defective = np.zeros(len(labels), bool) if own is None else own.astype(bool)
    inliers, outliers = np.flatnonzero(mine & ~defective), np.flatnonzero(~mine if own is None else mine & defective)
    copies = []
    for row in shifted:
        values = results.scores(row)  # of all images, or of those of the class
        copies.append(_copy(row, values[inliers] if len(values) == len(labels) else values[~defective[mine]]))
    name = OTHER_CLASSES if own is None else DEFECTS
    places = np.concatenate([inliers, outliers])
    of = clean.tags["class"]
    return Test(who, of, name, scores[inliers], scores[outliers], copies, planned, places, len(labels))


def _copy(row: Row, scores: Array) -> Copy:
    return Copy(row.tags["setup"], row.tags["shift"], row.tags["severity"], scores, row)


def _who(row: Row) -> Who:
    return Who(row.tags["network"], row.tags["seed"], row.tags["detector"])


def setups_of(lines: Sequence[Tests]) -> list[str]:
    """The setups of the run, in order."""
    return list(dict.fromkeys(setup for line in lines for test in line.tests for setup in test.planned))


def shifts_of(line: Tests) -> dict[tuple[str, str], list[str]]:
    """Setup and shift with the severities that are there, in order."""
    found: dict[tuple[str, str], list[str]] = {}
    for copy in (copy for test in line.tests for copy in test.copies):
        severities = found.setdefault((copy.setup, copy.shift), [])
        if copy.severity not in severities:
            severities.append(copy.severity)
    return found


def bounds(name: str, found: Any) -> dict[str, float]:
    """A figure with its interval as three columns; `found` has value, low and high."""
    return {name: found[0], f"{name}_low": found[1], f"{name}_high": found[2]}
