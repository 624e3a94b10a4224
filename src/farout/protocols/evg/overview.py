"""First table of `evg`: AUROC of unchanged outliers and of the worst cases of every variation (the paper's Table 2)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farout.metrics import Interval
from farout.protocols.evg.results import NONE, Found, Reading, Scored, SearchKey, interval, methods, titled
from farout.protocols.shared.columns import METHOD, N_INLIERS, N_OUTLIERS, OUTLIERS, SubjectKey
from farout.protocols.shared.pairs import span
from farout.protocols.shared.stresses import stress
from farout.report.content import INTERVAL, VALUE, Column, Line, Lines, Stress, Table

CLEAN = Column("clean", INTERVAL, better="higher")
WORST_CASE = Column("worst_case", VALUE, better="higher")
CONTROL = Column("control", VALUE, better="higher")


def overview(reading: Reading) -> Table:
    """Return a line per detector, outlier set and, if several were run, method; the best worst case of a set first."""
    lines: Lines = list(_lines(reading))
    if reading.found:
        lines = _best_first(lines)
    return Table("evg_auroc", "AUROC of unchanged outliers and of their worst cases", _caption(reading), lines)


def stresses(reading: Reading) -> list[Stress]:
    """Return the unchanged outliers as the clean condition, and every variation as a stress.

    Of several methods the one with the lowest AUROC counts: it is the worst case found.
    """
    lines = [{N_INLIERS: max(map(len, _inliers(reading)), default=0), **line} for line in _lines(reading)]
    first = {(SubjectKey.in_line(line), line[OUTLIERS]): line for line in reversed(lines)}
    found = stress("clean", "of unchanged outliers against inliers", first.values(), CLEAN, clean=True)
    for variation in methods(reading.found):
        column = _column(variation)
        lowest: dict[Hashable, Line] = {}
        for line in sorted(lines, key=lambda line: (np.isnan(line[column].value), line[column].value)):
            lowest.setdefault((SubjectKey.in_line(line), line[OUTLIERS]), line)
        about = f"of the worst cases that a search found by {titled(variation)} changes of outliers against inliers"
        found += stress(worst_case_name(variation), about, lowest.values(), column)
    return found


def worst_case_name(variation: str) -> str:
    """Return the name of the stress that searches a variation."""
    return f"worst case by {titled(variation)}"


def _lines(reading: Reading) -> Iterator[Line]:
    tried = methods(reading.found)
    compared = dict.fromkeys(method for names in tried.values() if len(names) > 1 for method in names)
    found = {(one.subject, one.search): one for one in reading.found}
    controlled = any(len(one.control) for one in reading.found)
    for subject, outliers in reading.known:
        for method in compared or [""]:
            line: dict[Column, Any] = {**subject.line, OUTLIERS: outliers, **({METHOD: method} if compared else {})}
            before = reading.clean.get((subject, outliers))
            line |= {N_OUTLIERS: len(before.scores) if before else 0, CLEAN: _auroc(before)}
            used = {
                name: SearchKey(outliers, name, method if len(ways) > 1 else ways[0]) for name, ways in tried.items()
            }
            line |= {_column(variation): _auroc(found.get((subject, search))) for variation, search in used.items()}
            line |= _worst(line, tried)
            yield line | (_control([found.get((subject, search)) for search in used.values()]) if controlled else {})


def _worst(line: Line, variations: Iterable[str]) -> dict[Column, float]:
    """Return the lowest AUROC of a line. Chains start at random, so that the unchanged outliers may be the lowest."""
    found = [line[_column(name)].value for name in variations]
    if not found:
        return {}
    lowest = np.min(found)  # not a number where one is missing
    return {WORST_CASE: float(lowest if np.isnan(lowest) else np.fmin(line[CLEAN].value, lowest))}


def _control(found: list[Found | None]) -> dict[Column, float]:
    """Return AUROC of the variation with the lowest AUROC, against inliers changed by the same search."""
    there = [one for one in found if one is not None]
    lowest = min(there, key=lambda one: one.auroc.value, default=None)
    return {CONTROL: interval(lowest.control, lowest.scores).value if lowest else nan}


def _auroc(one: Scored | None) -> Interval:
    return one.auroc if one else interval(NONE, NONE)


def _column(variation: str) -> Column:
    return Column(titled(variation), INTERVAL, of="variation", better="higher")


def _best_first(lines: Lines) -> Lines:
    """Return the lines sorted by outlier set, then by the detectors' lowest AUROC, then by that of their methods."""
    keys = [(line[OUTLIERS], SubjectKey.in_line(line)) for line in lines]
    sets, subjects = _numbered([outliers for outliers, _ in keys]), _numbered(keys)
    own = np.array([line[WORST_CASE] for line in lines])
    worst = np.array([own[subjects == subject].min() for subject in subjects])
    order = np.lexsort((own, subjects, -worst, sets))  # the last key counts first; missing values come last
    return [lines[index] for index in order]


def _numbered(keys: Sequence[Hashable]) -> NDArray[np.int64]:
    """Return the numbers of the keys; distinct keys are numbered in the order in which they appear."""
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys])


def _inliers(reading: Reading) -> list[NDArray[np.float64]]:
    return [one.inliers for one in [*reading.clean.values(), *reading.found]]


def _caption(reading: Reading) -> str:
    counts = map(len, _inliers(reading))
    caption = (
        f"AUROC of outliers against {span(counts)} unchanged inliers, in brackets its 95 % interval (DeLong). Higher "
        "is better: 1 is ideal, 0.5 is chance; below 0.5 outliers look more normal to the detector than inliers do. "
        "clean: the unchanged outliers that the search starts from; they are the first n_outliers of their set, so "
        "that the clean AUROC differs from that of other sections, which use more of them. "
    )
    if not reading.found:
        return caption + "No search has ended yet."
    caption += (
        "One column per variation (affine, color, …): the worst cases, that is, the variation of every outlier with "
        "the lowest score that the search found. Chains start from random variations, so the unchanged outlier need "
        "not be among those tried. worst_case: the lowest AUROC of the line, clean included. "
    )
    if any(len(one.control) for one in reading.found):
        caption += (
            "control: a check of the search, not a worse case: the same worst cases (of the variation with the lowest "
            "AUROC) against inliers that the same search has changed. The part of the drop by which control exceeds "
            "worst_case is due to searching alone; control is below worst_case if the search makes inliers look more "
            "outlying. "
        )
    return (
        f"{caption}{_effort(reading.found)} The intervals cover the choice of images only; a longer search finds "
        "lower scores."
    )


def _effort(found: list[Found]) -> str:
    """Return the number of chains, and the queries per chain by variation and method, as text."""
    parts = []
    for variation, names in methods(found).items():
        equal: dict[str, list[str]] = {}
        for name in names:
            equal.setdefault(span(one.queries for one in found if one.search[1:] == (variation, name)), []).append(name)
        parts.append(f"{titled(variation)}: " + ", ".join(f"{count} by {', '.join(by)}" for count, by in equal.items()))
    return f"{span(len(one.scores) for one in found)} chains; queries per chain in {'; '.join(parts)}."
