"""What the searches of `evg` have found so far, read together with what it is compared with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from farout import metrics
from farout.metrics import Interval
from farout.protocols.shared.columns import Who
from farout.protocols.shared.pairs import Array
from farout.study.cells.search import FOUND
from farout.study.results import Results, Row

NONE: Array = np.empty(0)
"""Scores that are not there."""


class What(NamedTuple):
    """What is searched, and how."""

    outliers: str
    variation: str
    method: str


@dataclass(frozen=True)
class Scored:
    """The scores of one row, beside those of the inliers by the same detector."""

    who: Who
    inlier_row: Row
    inliers: Array
    row: Row
    scores: Array

    @cached_property
    def auroc(self) -> Interval:
        """AUROC against inliers as they are, with its 95 % interval."""
        return interval(self.inliers, self.scores)


@dataclass(frozen=True)
class Found(Scored):
    """A search against one detector: `scores` are the lowest that its chains have met."""

    what: What
    clean: Array
    """Scores of the outliers before they were varied."""
    control: Array
    """What the same search finds on inliers."""
    results: Results

    def column(self, name: str) -> NDArray[Any]:
        """One of the figures that are kept per chain."""
        return self.results.store.column(self.row.cell, name)

    def trace(self) -> tuple[Array, Array]:
        """Numbers of queries [K], and the lowest score of every chain [N, K] after so many."""
        arrays = self.results.store.arrays(self.row.cell, FOUND)
        return arrays["queries"], arrays["trace"]

    def examples(self) -> dict[str, NDArray[Any]]:
        """Small pictures."""
        return self.results.store.arrays(self.row.cell, "examples.safetensors")

    @property
    def queries(self) -> int:
        """Of every chain."""
        return int(self.results.store.facts(self.row.cell)["queries"])

    @property
    def standardized_on(self) -> str:
        """The split whose scores give the search its scale."""
        return self.row.tags["standardized_on"]


@dataclass(frozen=True)
class Transferred(Scored):
    """What was found against another detector."""

    what: What
    against: Who


@dataclass(frozen=True)
class Reading:
    """All that a run holds so far; what has no inlier scores to be compared with is left out."""

    clean: dict[tuple[Who, str], Scored]
    """The outliers before they were varied, by detector and name."""
    found: list[Found]
    transferred: list[Transferred]

    @cached_property
    def known(self) -> dict[tuple[Who, str], None]:
        """Every detector and outlier set of which anything is known, in the order of the study."""
        return dict.fromkeys([*self.clean, *((one.who, one.what.outliers) for one in self.found)])

    @property
    def several_sets(self) -> bool:
        """Is there more than one outlier set, so that figures must say which is theirs?"""
        return len({outliers for _, outliers in self.known}) > 1

    @cached_property
    def of_first_seed(self) -> list[Found]:
        """What figures show that cannot be averaged."""
        return [one for one in self.found if one.who.seed == self.found[0].who.seed]

    @cached_property
    def names(self) -> dict[Who, str]:
        """What figures call the detectors: with their networks where there are several."""
        whos = dict.fromkeys([*(who for who, _ in self.known), *(against for _, against in self.judged)])
        several = len({who.network for who in whos}) > 1
        return {who: f"{who.detector} on {who.network}" if several and who.network else who.detector for who in whos}

    @cached_property
    def judged(self) -> list[tuple[Found | Transferred, Who]]:
        """What was found, by the detector it was found against and by all others, with the former."""
        own: list[tuple[Found | Transferred, Who]] = [(one, one.who) for one in self.found]
        return [*own, *((one, one.against) for one in self.transferred)]


def read(results: Results, protocol: str) -> Reading:
    """What there is so far of what the protocol planned."""
    rows = results.done(protocol)
    inliers = {Who.of(row): (row, results.scores(row)) for row in _of("inliers", rows)}
    rows = [row for row in rows if Who.of(row) in inliers]

    def scored(row: Row) -> tuple[Who, Row, Array, Row, Array]:
        return Who.of(row), *inliers[Who.of(row)], row, results.scores(row)

    clean = {(Who.of(row), row.tags["outliers"]): Scored(*scored(row)) for row in _of("outliers", rows)}
    controls = {(Who.of(row), _what(row)[1:]): results.scores(row) for row in _of("control", rows)}
    found = []
    for row in _of("search", rows):
        who, what = Who.of(row), _what(row)
        before = clean[who, what.outliers].scores if (who, what.outliers) in clean else NONE
        control = controls.get((who, what[1:]), NONE)
        found.append(Found(*scored(row), what, before, control, results))
    transferred = [Transferred(*scored(row), _what(row), _against(row)) for row in _of("transfer", rows)]
    return Reading(clean, found, transferred)


def _of(role: str, rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.tags["role"] == role]


def _against(row: Row) -> Who:
    return Who(row.tags["against_network"], row.tags["seed"], row.tags["against"])


def _what(row: Row) -> What:
    return What(row.tags["outliers"], row.tags["variation"], row.tags["method"])


def interval(inliers: Array, outliers: Array) -> Interval:
    """AUROC with its 95 % interval (DeLong); not a number where there are no scores."""
    return metrics.auroc_interval(inliers, outliers) if len(inliers) and len(outliers) else Interval(nan, nan, nan)


def titled(variation: str) -> str:
    """What people read: the pixel box is the paper's l_inf column."""
    return "pixel (l_inf)" if variation == "pixel" else variation


def methods(found: Iterable[Found | Transferred]) -> dict[str, list[str]]:
    """By variation, the methods that searched it, in the order of the study."""
    by_variation: dict[str, list[str]] = {}
    for one in found:
        known = by_variation.setdefault(one.what.variation, [])
        if one.what.method not in known:
            known.append(one.what.method)
    return by_variation
