"""Measures of a line of `rood`'s tables: of every setup, shift and severity, from one reading of the scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np

from farout.metrics.intervals import Interval
from farout.metrics.setups import Counts, Estimate, points, recall_threshold
from farout.protocols.rood.results import PLAIN, UNSHIFTED, Key, Line, Scores, Test

NOT_THERE = Interval(*[float("nan")] * 3)


class Measure(NamedTuple):
    """Measures of a test with some of its shifted copies."""

    auroc: Interval
    """AUROC with the copies among the inliers."""
    score: Interval
    """Generalizability score, in points."""
    flagged: Interval
    """Fraction of copies above the threshold that accepts 95 % of the unchanged inliers."""


MISSING = Measure(NOT_THERE, NOT_THERE, NOT_THERE)


class _Estimates(NamedTuple):
    auroc: Estimate
    plain: Estimate
    flagged: Estimate

    def measure(self) -> Measure:
        return Measure(self.auroc.share(), points(self.auroc - self.plain), self.flagged.share())


@dataclass
class Measured:
    """Measures of a line: the mean over its tests, and those of each test."""

    inliers: int = 0
    """Images that are inliers in one of the tests."""
    outliers: int = 0
    """Images that are outliers in one of the tests; if other classes are the outliers, every image is both."""
    together: dict[Key, Measure] = field(default_factory=dict)
    """Means over all tests; of what all tests have."""
    tests: list[tuple[int, int, dict[Key, Measure]]] = field(default_factory=list)
    """Number of inliers, number of outliers, and measures of whole setups, by test."""

    def of(self, key: Key) -> Measure:
        """Return the mean over all tests; NaN while a result is missing."""
        return self.together.get(key, MISSING)


def measured(line: Line) -> Measured:
    """Return the measures of a line; the scores of one test and one shift are read at a time."""
    found, seen = Measured(), [np.empty(0, np.int64), np.empty(0, np.int64)]
    sums: dict[Key, tuple[int, _Estimates]] = {}
    for test in line.tests:
        scores = Scores(test)
        alone: dict[Key, Measure] = {}
        for key, estimates in _estimates(line, test, scores):
            if not key.shift:
                alone[key] = estimates.measure()
            count, so_far = sums.pop(key, (0, None))
            both = _both(so_far, _among(estimates, scores))
            if count + 1 < line.expected:
                sums[key] = count + 1, both
            else:
                found.together[key] = _Estimates(*(one / line.expected for one in both)).measure()
        found.tests.append((len(scores.inliers), len(scores.outliers), alone))
        for kind, positions in enumerate(np.split(scores.positions, [len(scores.inliers)])):
            seen[kind] = np.union1d(seen[kind], positions)
    found.inliers, found.outliers = map(len, seen)
    return found


def _both(so_far: _Estimates | None, more: _Estimates) -> _Estimates:
    return more if so_far is None else _Estimates(*map(add, so_far, more))


def _among(estimates: _Estimates, scores: Scores) -> _Estimates:
    """Return the estimates with influences by position among the images of all tests."""
    positions = (scores.positions, scores.positions, scores.positions[: len(scores.inliers)])
    return _Estimates(*(one.among(where, scores.total) for one, where in zip(estimates, positions, strict=True)))


def _estimates(line: Line, test: Test, scores: Scores) -> Iterator[tuple[Key, _Estimates]]:
    """Yield the estimates of every setup, shift and severity whose copies are all stored."""
    threshold = recall_threshold(scores.inliers)
    plain = Counts.of(scores.inliers, scores.outliers, threshold)
    unshifted = plain.auroc()
    yield PLAIN, _Estimates(unshifted, unshifted, plain.flagged())
    for setup, shifts in line.setups.items():
        whole: list[Counts | None] = []
        for shift in shifts:
            of_shift: list[Counts | None] = []
            for severity in line.planned[setup, shift]:
                row = test.copies.get(Key(setup, shift, severity))
                of_shift.append(row and Counts.of(scores.shifted(row), scores.outliers, threshold))
                if severity and (one := of_shift[-1]):
                    yield Key(setup, shift, severity), _with(plain, one, unshifted)
            whole.append(_sum(of_shift))
            if every := whole[-1]:
                yield Key(setup, shift), _with(plain, every, unshifted)
        if all_shifts := _sum(whole):
            yield Key(setup), _with(plain, all_shifts, unshifted)


def _sum(counts: list[Counts | None]) -> Counts | None:
    """Return the sum; None if one is missing."""
    there = [one for one in counts if one]
    return reduce(add, there) if len(there) == len(counts) else None


def _with(plain: Counts, copies: Counts, unshifted: Estimate) -> _Estimates:
    return _Estimates((plain + copies).auroc(), unshifted, copies.flagged())


def setup_estimates(line: Line, test: Test, scores: Scores) -> Iterator[tuple[str, Estimate]]:
    """Yield the AUROC of one test in every setup whose copies are all stored, with the influence of every image."""
    plain = Counts.of(scores.inliers, scores.outliers)
    yield UNSHIFTED, plain.auroc()
    for setup, shifts in line.setups.items():
        rows = [
            test.copies.get(Key(setup, shift, severity)) for shift in shifts for severity in line.planned[setup, shift]
        ]
        counts = _sum([row and Counts.of(scores.shifted(row), scores.outliers) for row in rows])
        if counts:
            yield setup, (plain + counts).auroc()
