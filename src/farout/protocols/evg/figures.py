"""Figures of `evg`: lowest score against queries (the paper's Fig. 2) and transfer between detectors (Fig. 5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from farout.protocols.evg.results import Found, Reading, methods, titled
from farout.protocols.shared.pairs import Array, span
from farout.report.content import Curve, Curves, HeatMap

TRANSFER = "Transfer of worst cases between detectors"
FOUND_AGAINST, SCORED_BY = "found against", "scored by"


def curves(reading: Reading) -> list[Curves]:
    """Return a curve per method if several were run, else per variation; of the first seed."""
    found = reading.of_first_seed
    several = any(len(names) > 1 for names in methods(found).values())
    parts: dict[str, list[Found]] = {}
    for one in found:
        words = [one.search.outliers] if reading.several_sets else []
        words += [titled(one.search.variation)] if several else []
        parts.setdefault(", ".join(["Search progress", *words]), []).append(one)
    caption = (
        "Lowest score that a chain of the search has met after so many queries of the detector: the mean over "
        f"{span(len(one.scores) for one in found)} chains, in a band from the lowest chain to the highest; a panel per "
        "detector. Scores are standardized by the inliers' test scores: 0, the dotted line, is the mean inlier, 1 is "
        "one standard deviation above it. For a detector higher is better: a curve that falls to 0 has found outliers "
        "as normal as the mean inlier. Of several seeds the first is shown."
    )
    caption += (
        " Of two methods, the one that is lower at the same number of queries searches better." if several else ""
    )
    labels = ("queries per chain", "lowest score so far")
    return [
        Curves(f"evg_curves_{number}", title, caption, _panels(reading, part, several), labels)
        for number, (title, part) in enumerate(parts.items())
    ]


def _panels(reading: Reading, found: Sequence[Found], several: bool) -> dict[str, dict[str, Curve]]:
    panels: dict[str, dict[str, Curve]] = {}
    for one in found:
        line = one.search.method if several else titled(one.search.variation)
        panels.setdefault(reading.names[one.subject], {})[line] = _curve(one)
    return panels


def _curve(one: Found) -> Curve:
    """Return the mean and the band over chains, in scores standardized by the inliers."""
    queries, trace = one.trace()
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = standardized(trace, one.inliers)
        return Curve(queries.astype(np.float64), scaled.mean(axis=0), scaled.min(axis=0), scaled.max(axis=0))


def standardized(scores: Array, inliers: Array) -> Array:
    """Return the scores standardized so that the inliers have mean 0 and standard deviation 1."""
    unit = max(np.abs(scores).max(), np.abs(inliers).max()) or 1.0  # squares of large scores would overflow
    scaled = inliers / unit
    standard: Array = (scores / unit - scaled.mean()) / (scaled.std() or 1.0)
    return standard


def transfer_maps(reading: Reading) -> list[HeatMap]:
    """Return a figure per outlier set: AUROC of every detector on the worst cases found against each detector."""
    caption = (
        "AUROC of the worst cases that a search found against the detector of the row, as scored by the detector of "
        "the column, against unchanged inliers; on the diagonal both are the same detector. Higher (blue) is better: 1 "
        "is ideal, 0.5 is chance. A blue column: worst cases found against another detector do not fool this one. A "
        "red or pale row: this detector's worst cases fool others too."
    )
    caption += " Mean over seeds." if len({one.subject.seed for one in reading.transferred}) > 1 else ""
    figures: list[HeatMap] = []
    for outliers in dict.fromkeys(one.search.outliers for one in reading.transferred):
        title = f"{TRANSFER}, {outliers}" if reading.several_sets else TRANSFER
        figures.append(HeatMap(f"evg_transfer_{len(figures)}", title, caption, _matrices(reading, outliers)))
    return figures


def _matrices(reading: Reading, outliers: str) -> dict[str, pd.DataFrame]:
    """Return the matrices by variation and method."""
    tried = methods([*reading.found, *reading.transferred])
    names = reading.names
    cells: dict[str, list[tuple[str, str, float]]] = {}
    shown = {one.search for one in reading.transferred if one.search.outliers == outliers}
    for one, against in reading.judged:
        if one.search in shown:
            words = [
                titled(one.search.variation),
                *([one.search.method] if len(tried[one.search.variation]) > 1 else []),
            ]
            cells.setdefault(" · ".join(words), []).append((names[against], names[one.subject], one.auroc.value))
    return {title: _matrix(values, list(dict.fromkeys(names.values()))) for title, values in cells.items()}


def _matrix(cells: Sequence[tuple[str, str, float]], names: list[str]) -> pd.DataFrame:
    """Return AUROC by the detector searched against (rows) and the scoring detector (columns), the mean over seeds."""
    frame = pd.DataFrame(cells, columns=[FOUND_AGAINST, SCORED_BY, "auroc"])
    return frame.pivot_table(index=FOUND_AGAINST, columns=SCORED_BY, values="auroc").reindex(
        index=pd.Index(names, name=FOUND_AGAINST), columns=pd.Index(names, name=SCORED_BY)
    )
