"""The first table of `evg`: AUROC clean and in the worst case of every variation (Table 2 of the paper)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import nan
from typing import Any

import numpy as np
import pandas as pd

from farout.protocols.evg.results import NONE, Found, Reading, Scored, What, bounds, interval, methods, titled
from farout.protocols.shared.pairs import span
from farout.protocols.summary import Table

TAKEN = ("network", "seed", "detector", "outliers", "n_outliers", "method", "clean", "worst_case", "control")
"""Columns that are no variation."""


def overview(reading: Reading) -> Table:
    """A line per detector, outlier set and, where several were run, method; of every set the best worst case first."""
    frame = pd.DataFrame(list(_lines(reading)))
    if reading.found:
        frame = _best_first(frame)
    return Table("evg_auroc", "AUROC in the worst case", _caption(reading), frame)


def _lines(reading: Reading) -> Iterator[dict[str, Any]]:
    tried = methods(reading.found)
    compared = dict.fromkeys(method for names in tried.values() if len(names) > 1 for method in names)
    found = {(one.who, one.what): one for one in reading.found}
    controlled = any(len(one.control) for one in reading.found)
    for who, outliers in reading.known:
        for method in compared or [""]:
            line: dict[str, Any] = {**who._asdict(), "outliers": outliers, **({"method": method} if compared else {})}
            before = reading.clean.get((who, outliers))
            line |= {"n_outliers": len(before.scores) if before else 0, **_bounds("clean", before)}
            used = {name: What(outliers, name, method if len(ways) > 1 else ways[0]) for name, ways in tried.items()}
            for variation, what in used.items():
                line |= _bounds(_column(variation), found.get((who, what)))
            line |= _worst(line, tried)
            yield line | (_control([found.get((who, what)) for what in used.values()]) if controlled else {})


def _worst(line: dict[str, Any], variations: Iterable[str]) -> dict[str, float]:
    """The lowest AUROC of a line: chains begin at random, so what was found may be less normal than what was clean."""
    found = [line[_column(name)] for name in variations]
    if not found:
        return {}
    lowest = np.min(found)  # not a number where one is missing
    return {"worst_case": float(lowest if np.isnan(lowest) else np.fmin(line["clean"], lowest))}


def _control(found: list[Found | None]) -> dict[str, float]:
    """Of the variation that came lowest, AUROC against inliers that were searched likewise."""
    there = [one for one in found if one is not None]
    lowest = min(there, key=lambda one: one.auroc.value, default=None)
    return {"control": interval(lowest.control, lowest.scores).value if lowest else nan}


def _bounds(name: str, one: Scored | None) -> dict[str, float]:
    return bounds(name, one.auroc if one else interval(NONE, NONE))


def _column(variation: str) -> str:
    """The variation's column; what it is called may be the name of another."""
    return f"{variation} (variation)" if variation in TAKEN else titled(variation)


def _best_first(frame: pd.DataFrame) -> pd.DataFrame:
    """Outlier sets in their order; within each the detectors by their lowest AUROC, and their methods by theirs."""
    sets, _ = pd.factorize(frame["outliers"])
    whos, _ = pd.factorize(pd.MultiIndex.from_frame(frame[["network", "seed", "detector", "outliers"]]))
    own = frame["worst_case"].to_numpy()
    worst = np.array([own[whos == who].min() for who in whos])
    order = np.lexsort((own, whos, -worst, sets))  # the last key counts first; what is missing comes last
    return frame.iloc[order].reset_index(drop=True)


def _caption(reading: Reading) -> str:
    counts = (len(one.inliers) for one in [*reading.clean.values(), *reading.found])
    caption = (
        f"AUROC against {span(counts)} unchanged inliers, with its 95 % interval (DeLong); 1 is ideal, 0.5 is chance, "
        "below 0.5 outliers look more normal than inliers. clean: the outliers that the search starts from, unchanged; "
        "they are the first n_outliers of their set, so that other sections, which take more of them, have other "
        "clean figures. "
    )
    if not reading.found:
        return caption + "No search has ended yet."
    caption += (
        "Under each variation: of every outlier the most normal variation that was found. Chains begin at random "
        "variations, and the unchanged outlier need not be among what they try. worst_case: the lowest of these "
        "figures, clean included. "
    )
    if any(len(one.control) for one in reading.found):
        caption += (
            "control: no worse case but a check of the search: the outliers of the variation that came lowest, against "
            "inliers that the same search has changed. Above worst_case, so much of the drop is due to searching "
            "alone; it may lie below worst_case where the search leaves inliers odder than they were. "
        )
    return caption + f"{_effort(reading.found)} The interval is that of these images; a longer search comes lower."


def _effort(found: list[Found]) -> str:
    """Who searched what, how long."""
    parts = []
    for variation, names in methods(found).items():
        equal: dict[str, list[str]] = {}
        for name in names:
            equal.setdefault(span(one.queries for one in found if one.what[1:] == (variation, name)), []).append(name)
        parts.append(f"{titled(variation)}: " + ", ".join(f"{count} by {', '.join(by)}" for count, by in equal.items()))
    return f"{span(len(one.scores) for one in found)} chains; queries per chain in {'; '.join(parts)}."
