"""Stored results of `rood` as tests: one detector, inliers with their shifted copies, and outliers.

A test reads its scores when they are needed: a run has too many to hold in memory at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from farout.data.arrays import OUTLIER
from farout.protocols.shared.columns import SubjectKey
from farout.protocols.shared.pairs import Array
from farout.study.results import Results, Row, positions

UNSHIFTED = "U"
"""Name of the setup without shifts."""
OTHER_CLASSES, DEFECTS = "other classes", "defects"
"""Names of the outliers of one-class tests."""


class Key(NamedTuple):
    """Key of shifted copies of the inliers: those of a setup, of one of its shifts, or of one severity of a shift."""

    setup: str
    shift: str = ""
    severity: str = ""


PLAIN = Key(UNSHIFTED)


@dataclass(frozen=True)
class Test:
    """Scores of one detector: inliers with their shifted copies, and outliers."""

    results: Results
    clean: Row
    others: Row | None
    """Row of the outliers; None if they are in the row of the inliers, as other classes are."""
    copies: Mapping[Key, Row]
    """Rows stored so far, by setup, shift and severity."""

    @property
    def of(self) -> str:
        """Class that is the inlier; empty for all of them."""
        return self.clean.tags["class"]

    @property
    def n_train(self) -> int:
        """Number of training images of its class that a one-class test's detector is fitted on."""
        return int(self.clean.tags["n_train"])

    @property
    def outliers(self) -> str:
        """Name of the outliers."""
        if self.others:
            return self.others.tags["outliers"]
        return OTHER_CLASSES if self.results.known(self.clean, OUTLIER) is None else DEFECTS


class Scores:
    """Scores of a test; those of copies are read shift by shift."""

    def __init__(self, test: Test) -> None:
        self.results, scores = test.results, test.results.scores(test.clean)
        own, label = self.results.known(test.clean, OUTLIER), test.clean.tags["label"]
        mine = self.results.labels(test.clean) == int(label) if label else np.ones(len(scores), bool)
        defective = np.zeros(len(scores), bool) if own is None else own.astype(bool)
        inliers = np.flatnonzero(mine & ~defective)
        outliers = np.flatnonzero(~mine if own is None else mine & defective)
        self.inliers: Array = scores[inliers]
        self.index = self.results.index(test.clean)[inliers]
        """Index of every inlier in its own set."""
        self.outliers: Array = self.results.scores(test.others) if test.others else scores[outliers]
        if test.others:
            outliers = np.arange(len(scores), len(scores) + len(self.outliers))
        self.positions = np.concatenate([inliers, outliers])
        """Positions of the inliers, then of the outliers, among the `total` images of all tests of a line."""
        self.total = len(scores) + (len(self.outliers) if test.others else 0)

    def shifted(self, row: Row) -> Array:
        """Return the scores of the inliers' copies; the row may also hold copies of other classes."""
        return self.results.scores(row)[positions(self.index, self.results.index(row))]


@dataclass(frozen=True)
class Line:
    """Tests of one detector that make one line of a table: one against an outlier set, or one per class."""

    subject: SubjectKey
    outliers: str
    tests: Sequence[Test]
    expected: int
    planned: Mapping[tuple[str, str], Sequence[str]]
    """Severities of a finished run, by setup and shift."""

    @property
    def against(self) -> str:
        """Name of the line's outliers."""
        return f"{self.outliers}, mean of {self.expected}" if self.one_class else self.outliers

    @property
    def one_class(self) -> bool:
        return bool(self.tests[0].of)

    @property
    def whole(self) -> bool:
        """True if the results of all classes are stored."""
        return len(self.tests) == self.expected

    @cached_property
    def setups(self) -> dict[str, list[str]]:
        """Shifts by setup, in order."""
        found: dict[str, list[str]] = {}
        for setup, shift in self.planned:
            found.setdefault(setup, []).append(shift)
        return found

    def strongest(self, setup: str, shift: str) -> Key:
        """Return the key of a shift's copies at its highest severity."""
        return Key(setup, shift, max(self.planned[setup, shift], key=lambda severity: (len(severity), severity)))


def read(results: Results, protocol: str) -> list[Line]:
    """Return all lines in the order of the plan, with the results stored so far."""
    by_subject: dict[SubjectKey, dict[str, list[Row]]] = {}
    for row in results.rows:
        if row.protocol == protocol:
            by_subject.setdefault(SubjectKey.of(row), {}).setdefault(row.tags["label"], []).append(row)
    return [line for subject, by_class in by_subject.items() for line in _lines(results, subject, by_class)]


def _lines(results: Results, subject: SubjectKey, by_class: Mapping[str, Sequence[Row]]) -> Iterator[Line]:
    tests = [test for rows in by_class.values() for test in _tests(results, rows)]
    planned: dict[tuple[str, str], list[str]] = {}
    for key in map(_key, next(iter(by_class.values()))):
        if key.setup:
            planned.setdefault((key.setup, key.shift), []).append(key.severity)
    by_outliers: dict[str, list[Test]] = {}
    for test in tests:
        by_outliers.setdefault(test.outliers, []).append(test)
    for outliers, part in by_outliers.items():
        yield Line(subject, outliers, part, len(by_class), planned)


def _tests(results: Results, rows: Sequence[Row]) -> Iterator[Test]:
    """Yield the tests of one detector and one class, or of all classes together."""
    there = [row for row in rows if results.store.has(row.cell)]
    copies = {_key(row): row for row in there if row.tags["setup"]}
    clean = [row for row in there if not row.tags["setup"]]
    for inliers in (row for row in clean if not row.tags["outliers"]):
        others = [row for row in clean if row.tags["outliers"]]
        yield from (Test(results, inliers, row, copies) for row in ([None] if inliers.tags["label"] else others))


def _key(row: Row) -> Key:
    return Key(row.tags["setup"], row.tags["shift"], row.tags["severity"])
