"""Stored results of `evg`: the worst cases found so far, with the scores that they are compared with."""

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
from farout.protocols.shared.columns import SubjectKey
from farout.protocols.shared.pairs import Array
from farout.study.cells.search import FOUND
from farout.study.results import Results, Row

NONE: Array = np.empty(0)
"""Scores of a result that is not stored."""


class SearchKey(NamedTuple):
    """Key of a search: the outlier set, the variation and the method."""

    outliers: str
    variation: str
    method: str


@dataclass(frozen=True)
class Scored:
    """Scores of one row, with the same detector's scores of the inliers."""

    subject: SubjectKey
    inlier_row: Row
    inliers: Array
    row: Row
    scores: Array

    @cached_property
    def auroc(self) -> Interval:
        """AUROC against unchanged inliers, with its 95 % interval."""
        return interval(self.inliers, self.scores)


@dataclass(frozen=True)
class Found(Scored):
    """Search against one detector: `scores` are the lowest of every chain."""

    search: SearchKey
    clean: Array
    """Scores of the unchanged outliers."""
    control: Array
    """Lowest scores that the same search finds on inliers."""
    results: Results

    def column(self, name: str) -> NDArray[Any]:
        """Return a value per chain, by its name in the record."""
        return self.results.store.column(self.row.cell, name)

    def trace(self) -> tuple[Array, Array]:
        """Return numbers of queries [K], and the lowest score of every chain after as many queries [N, K]."""
        arrays = self.results.store.arrays(self.row.cell, FOUND)
        return arrays["queries"], arrays["trace"]

    def examples(self) -> dict[str, NDArray[Any]]:
        """Return the stored pictures."""
        return self.results.store.arrays(self.row.cell, "examples.safetensors")

    @property
    def queries(self) -> int:
        """Queries per chain."""
        return int(self.results.store.facts(self.row.cell)["queries"])

    @property
    def standardized_on(self) -> str:
        """Split whose scores standardize the search."""
        return self.row.tags["standardized_on"]


@dataclass(frozen=True)
class Transferred(Scored):
    """Scores of worst cases found against another detector."""

    search: SearchKey
    against: SubjectKey


@dataclass(frozen=True)
class Reading:
    """Results of a run so far; those without inlier scores to be compared with are left out."""

    clean: dict[tuple[SubjectKey, str], Scored]
    """Scores of the unchanged outliers, by detector and outlier set."""
    found: list[Found]
    transferred: list[Transferred]

    @cached_property
    def known(self) -> dict[tuple[SubjectKey, str], None]:
        """Detectors and outlier sets that have results, in the order of the study."""
        return dict.fromkeys([*self.clean, *((one.subject, one.search.outliers) for one in self.found)])

    @property
    def several_sets(self) -> bool:
        """True if there is more than one outlier set, so that titles must name it."""
        return len({outliers for _, outliers in self.known}) > 1

    @cached_property
    def of_first_seed(self) -> list[Found]:
        """Searches of the first seed, for figures that cannot show a mean."""
        return [one for one in self.found if one.subject.seed == self.found[0].subject.seed]

    @cached_property
    def names(self) -> dict[SubjectKey, str]:
        """Names of the detectors in figures, with their networks if there are several."""
        subjects = dict.fromkeys([*(subject for subject, _ in self.known), *(against for _, against in self.judged)])
        several = len({subject.network for subject in subjects}) > 1
        return {
            subject: f"{subject.detector} on {subject.network}" if several and subject.network else subject.detector
            for subject in subjects
        }

    @cached_property
    def judged(self) -> list[tuple[Found | Transferred, SubjectKey]]:
        """Worst cases as scored by the detector they were found against and by all others, with that detector."""
        own: list[tuple[Found | Transferred, SubjectKey]] = [(one, one.subject) for one in self.found]
        return [*own, *((one, one.against) for one in self.transferred)]


def read(results: Results, protocol: str) -> Reading:
    """Return the protocol's results that are stored so far."""
    rows = results.done(protocol)
    inliers = {SubjectKey.of(row): (row, results.scores(row)) for row in _of("inliers", rows)}
    rows = [row for row in rows if SubjectKey.of(row) in inliers]

    def scored(row: Row) -> tuple[SubjectKey, Row, Array, Row, Array]:
        return SubjectKey.of(row), *inliers[SubjectKey.of(row)], row, results.scores(row)

    clean = {(SubjectKey.of(row), row.tags["outliers"]): Scored(*scored(row)) for row in _of("outliers", rows)}
    controls = {(SubjectKey.of(row), _search_key(row)[1:]): results.scores(row) for row in _of("control", rows)}
    found = []
    for row in _of("search", rows):
        subject, search = SubjectKey.of(row), _search_key(row)
        before = clean[subject, search.outliers].scores if (subject, search.outliers) in clean else NONE
        control = controls.get((subject, search[1:]), NONE)
        found.append(Found(*scored(row), search, before, control, results))
    transferred = [Transferred(*scored(row), _search_key(row), _against(row)) for row in _of("transfer", rows)]
    return Reading(clean, found, transferred)


def _of(role: str, rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.tags["role"] == role]


def _against(row: Row) -> SubjectKey:
    return SubjectKey(row.tags["against_network"], row.tags["seed"], row.tags["against"])


def _search_key(row: Row) -> SearchKey:
    return SearchKey(row.tags["outliers"], row.tags["variation"], row.tags["method"])


def interval(inliers: Array, outliers: Array) -> Interval:
    """Return AUROC with its 95 % interval (DeLong); NaN without scores."""
    return metrics.auroc_interval(inliers, outliers) if len(inliers) and len(outliers) else Interval(nan, nan, nan)


def titled(variation: str) -> str:
    """Return the title of a variation; the pixel box is the paper's l_inf column."""
    return "pixel (l_inf)" if variation == "pixel" else variation


def methods(found: Iterable[Found | Transferred]) -> dict[str, list[str]]:
    """Return, by variation, the methods that searched it, in the order of the study."""
    by_variation: dict[str, list[str]] = {}
    for one in found:
        known = by_variation.setdefault(one.search.variation, [])
        if one.search.method not in known:
            known.append(one.search.method)
    return by_variation
