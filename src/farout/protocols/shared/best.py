"""The best detector of a table, and which others cannot be told apart from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from farout import metrics
from farout.protocols.summary import BEST, TIED

SIGNIFICANT = 0.05
"""From this p-value on two detectors cannot be told apart."""

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


def marked(frame: pd.DataFrame, marks: pd.Series[str], wide: pd.DataFrame) -> pd.DataFrame:
    """The marks of a frame's lines in the form of `wide`: a line per network and detector, a column per set."""
    lines = frame.assign(mark=marks)
    return lines.pivot(index=wide.index.names, columns="outliers", values="mark").loc[wide.index].reset_index(drop=True)
