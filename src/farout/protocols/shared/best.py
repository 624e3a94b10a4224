"""Best detector of a table, and the detectors that cannot be told apart from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from farout import metrics
from farout.protocols.shared.columns import DETECTOR, NETWORK
from farout.report.content import BEST, SIGNIFICANT, TIED, VALUE, Column, Line, Lines

MEAN = Column("mean", VALUE, better="higher")
"""Mean over the outlier sets."""

Scores = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Scores of inliers and of outliers."""


def best(frame: pd.DataFrame, indices: Any) -> int:
    """Return the index, among these, of the highest AUROC."""
    indices = np.asarray(indices)
    return int(indices[largest(frame["auroc"].to_numpy()[indices])])


def largest(values: NDArray[np.float64]) -> int:
    """Return the index of the largest value; of a NaN only if all values are NaN."""
    return int(np.nan_to_num(values, nan=-1).argmax())


def versus_best(frame: pd.DataFrame, scores: Callable[[int], Scores]) -> tuple[list[float], pd.Series[str]]:
    """Compare every line with the best of its network, seed and outlier set by DeLong's paired test.

    Return p-values and marks (see `Table`). scores: function that reads those of a line, so that few are in memory at a
    time; without scores the p-value is NaN.
    """
    p_values, marks = [float("nan")] * len(frame), [""] * len(frame)
    for indices in frame.groupby(["network", "seed", "outliers"], sort=False).indices.values():
        first = best(frame, indices)
        of_best = scores(first)
        for index in indices:
            if all(map(len, (*of_best, *(own := scores(index))))):
                p_values[index] = metrics.paired_test(*of_best, *own).p_value
                marks[index] = BEST if index == first else TIED if p_values[index] >= SIGNIFICANT else ""
    return p_values, pd.Series(marks, frame.index)


def best_first(wide: pd.DataFrame, columns: Mapping[str, Column], cell: Callable[[Any, str], Any]) -> list[Line]:
    """Return a line per network and detector (the frame's index), sorted by the mean over all outlier sets.

    columns: the table's column for every outlier set (the frame's columns).
    cell: function that returns the cell of a network and detector, and of an outlier set.
    """
    means = wide.mean(axis=1, skipna=False).sort_values(ascending=False, kind="stable")
    lines: list[Line] = []
    for key, mean in means.items():
        network, detector = cast(tuple[str, str], key)
        cells = {column: cell(key, name) for name, column in columns.items()}
        lines.append({NETWORK: network, DETECTOR: detector, **cells, MEAN: mean})
    return lines


def marked(
    frame: pd.DataFrame, marks: pd.Series[str], lines: Lines, columns: Mapping[str, Column]
) -> dict[Column, list[str]]:
    """Return the marks of a frame's rows, arranged for a table with these lines and a column per outlier set."""
    wide = frame.assign(mark=marks).pivot(index=["network", "detector"], columns="outliers", values="mark")
    wide = wide.loc[[(line[NETWORK], line[DETECTOR]) for line in lines]]
    return {column: wide[name].fillna("").tolist() for name, column in columns.items()}
