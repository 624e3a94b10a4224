"""The best detector of a table, and which others cannot be told apart from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from farout import metrics
from farout.protocols.shared.columns import DETECTOR, NETWORK
from farout.report.content import BEST, TIED, VALUE, Column, Line, Lines

SIGNIFICANT = 0.05
"""From this p-value on two detectors cannot be told apart."""

MEAN = Column("mean", VALUE, better="higher")
"""Over the outlier sets."""

Scores = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Of inliers and of outliers."""


def best(frame: pd.DataFrame, places: Any) -> int:
    """The place, among these, of the highest AUROC."""
    places = np.asarray(places)
    return int(places[largest(frame["auroc"].to_numpy()[places])])


def largest(values: NDArray[np.float64]) -> int:
    """The place of the largest value; of NaN only where there is nothing else."""
    return int(np.nan_to_num(values, nan=-1).argmax())


def versus_best(frame: pd.DataFrame, scores: Sequence[Scores]) -> tuple[list[float], pd.Series[str]]:
    """Compare every line with the best of its network, seed and outlier set by DeLong's paired test.

    Returns p-values and marks (see `Table`); scores: of every line. NaN where there are none.
    """
    p_values, marks = [float("nan")] * len(frame), [""] * len(frame)
    for places in frame.groupby(["network", "seed", "outliers"], sort=False).indices.values():
        first = best(frame, places)
        for place in places:
            if all(map(len, (*scores[first], *scores[place]))):
                p_values[place] = metrics.paired_test(*scores[first], *scores[place]).p_value
                marks[place] = BEST if place == first else TIED if p_values[place] >= SIGNIFICANT else ""
    return p_values, pd.Series(marks, frame.index)


def best_first(wide: pd.DataFrame, columns: Mapping[str, Column], cell: Callable[[Any, str], Any]) -> list[Line]:
    """Return a line per network and detector, which are the frame's index, by their mean over all outlier sets.

    columns: of the outlier sets, which are the frame's columns; cell: gives what stands there.
    """
    means = wide.mean(axis=1, skipna=False).sort_values(ascending=False, kind="stable")
    lines: list[Line] = []
    for who, mean in means.items():
        network, detector = cast(tuple[str, str], who)
        cells = {column: cell(who, name) for name, column in columns.items()}
        lines.append({NETWORK: network, DETECTOR: detector, **cells, MEAN: mean})
    return lines


def marked(
    frame: pd.DataFrame, marks: pd.Series[str], lines: Lines, columns: Mapping[str, Column]
) -> dict[Column, list[str]]:
    """Return the marks of a frame's lines for a table with these lines and a column per outlier set."""
    wide = frame.assign(mark=marks).pivot(index=["network", "detector"], columns="outliers", values="mark")
    wide = wide.loc[[(line[NETWORK], line[DETECTOR]) for line in lines]]
    return {column: wide[name].fillna("").tolist() for name, column in columns.items()}
