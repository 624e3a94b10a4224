"""The figures of `evg`: best score against queries (the paper's Fig. 2) and transfer between detectors (Fig. 5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from farout.protocols.evg.results import Found, Reading, methods, titled
from farout.protocols.shared.pairs import Array
from farout.report.content import Curve, Curves, HeatMap


def curves(reading: Reading) -> list[Curves]:
    """A line per method where several were run, else per variation; of the first seed."""
    found = reading.of_first_seed
    several = any(len(names) > 1 for names in methods(found).values())
    parts: dict[str, list[Found]] = {}
    for one in found:
        words = [one.what.outliers] if reading.several_sets else []
        words += [titled(one.what.variation)] if several else []
        parts.setdefault(", ".join(["Search progress", *words]), []).append(one)
    caption = (
        "The lowest score that a chain has met so far: mean over chains, in a band from the lowest chain to the "
        "highest. Scores are in units of the inliers' test scores: 0, the dotted line, is the mean inlier, 1 is a "
        "standard deviation above it."
    )
    caption += " Of two methods the lower one at the same number of queries searches better." if several else ""
    labels = ("queries per chain", "lowest score so far")
    return [
        Curves(f"evg_curves_{place}", title, caption, _panels(reading, part, several), labels)
        for place, (title, part) in enumerate(parts.items())
    ]


def _panels(reading: Reading, found: Sequence[Found], several: bool) -> dict[str, dict[str, Curve]]:
    panels: dict[str, dict[str, Curve]] = {}
    for one in found:
        line = one.what.method if several else titled(one.what.variation)
        panels.setdefault(reading.names[one.who], {})[line] = _curve(one)
    return panels


def _curve(one: Found) -> Curve:
    """Mean and band over chains, where the mean inlier is 0 and the inliers' standard deviation 1."""
    queries, trace = one.trace()
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = standardized(trace, one.inliers)
        return Curve(queries.astype(np.float64), scaled.mean(axis=0), scaled.min(axis=0), scaled.max(axis=0))


def standardized(scores: Array, inliers: Array) -> Array:
    """Return scores where the mean inlier is 0 and the inliers' standard deviation 1."""
    unit = max(np.abs(scores).max(), np.abs(inliers).max()) or 1.0  # squares of large scores would overflow
    scaled = inliers / unit
    found: Array = (scores / unit - scaled.mean()) / (scaled.std() or 1.0)
    return found


def transfer_maps(reading: Reading) -> list[HeatMap]:
    """A figure per outlier set: AUROC of what was found against one detector by every other."""
    caption = (
        "AUROC of what was found against the detector of the row, by the detector of the column; on the diagonal the "
        "detector itself. A blue column: the finds of others do not fool it. A red or pale row: its worst cases fool "
        "others too."
    )
    caption += " Mean over seeds." if len({one.who.seed for one in reading.transferred}) > 1 else ""
    figures: list[HeatMap] = []
    for outliers in dict.fromkeys(one.what.outliers for one in reading.transferred):
        title = f"Transfer, {outliers}" if reading.several_sets else "Transfer"
        figures.append(HeatMap(f"evg_transfer_{len(figures)}", title, caption, _matrices(reading, outliers)))
    return figures


def _matrices(reading: Reading, outliers: str) -> dict[str, pd.DataFrame]:
    """By variation and method, where anything was transferred."""
    tried = methods([*reading.found, *reading.transferred])
    names = reading.names
    cells: dict[str, list[tuple[str, str, float]]] = {}
    shown = {one.what for one in reading.transferred if one.what.outliers == outliers}
    for one, against in reading.judged:
        if one.what in shown:
            words = [titled(one.what.variation), *([one.what.method] if len(tried[one.what.variation]) > 1 else [])]
            cells.setdefault(" · ".join(words), []).append((names[against], names[one.who], one.auroc.value))
    return {title: _matrix(values, list(dict.fromkeys(names.values()))) for title, values in cells.items()}


def _matrix(cells: Sequence[tuple[str, str, float]], names: list[str]) -> pd.DataFrame:
    """Rows: found against; columns: scored by; the mean over seeds where there are several."""
    frame = pd.DataFrame(cells, columns=["against", "by", "auroc"])
    return frame.pivot_table(index="against", columns="by", values="auroc").reindex(index=names, columns=names)
