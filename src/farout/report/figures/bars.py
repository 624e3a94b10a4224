"""Horizontal bars with intervals, one below the other, each with its name beside it."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from farout.report.content import Bars
from farout.report.figures.style import (
    COLUMNS,
    DISTINCT,
    INK,
    WIDTH,
    colors_of,
    grid,
    hover,
    legend,
    nothing,
    shorten,
    text_width,
)

LINE, AROUND = 0.155, 0.95
"""Inches per bar with the space to the next one, and above and below all bars of a panel."""
GAP = 0.4
"""Space between two groups, in bars."""
NARROWEST, MOST = 1.6, 5
"""Smallest width of a panel in inches, and largest number of panels in a row."""
LONGEST, SIZE = 30, 8
"""Largest number of characters of a bar's name, and their size in points."""
CAP = 0.18
"""Half the height of a whisker's ends, in bars."""
FIRST: dict[str, Any] = {"color": INK, "linewidth": 1, "clip_on": False}
CHANCE: dict[str, Any] = {"color": INK, "linewidth": 1, "linestyle": ":"}
WHISKER: dict[str, Any] = {"color": INK, "linewidth": 0.9, "clip_on": False}


def draw(figure: Bars) -> Figure:
    """Draw a panel of bars for each detector, with lines at the first bar's value and at chance, if it has one."""
    frames = list(figure.panels.values())
    columns = _columns(frames)
    tallest = max(_centers(frame).max(initial=0) for frame in frames)
    canvas, axes = grid(figure.panels, LINE * (tallest + 1) + AROUND, columns)
    colors = colors_of((dict.fromkeys(map(str, frame["group"])) for frame in frames), DISTINCT)
    for number, (ax, frame) in enumerate(zip(axes, frames, strict=True)):
        ax.set(ylim=(tallest + 0.6, -0.6))
        ax.set(**({"xscale": "log"} if figure.log else {"xlim": (0, figure.limit)}))
        if figure.limit == 1 and not figure.log:
            ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        _names(ax, frame, labeled=number % columns == 0 or not _alike(frame, frames[number - 1]))
        _bars(ax, frame, colors, figure.chance, first=not figure.log)
    for ax in axes[-columns:]:
        ax.set_xlabel(figure.label)
    lines = [] if figure.log else [Line2D([], [], label="first bar", **FIRST)]
    lines += [] if figure.chance is None else [Line2D([], [], label="chance", **CHANCE)]
    legend(canvas, [*(Patch(facecolor=color, label=name) for name, color in colors.items()), *lines])
    return canvas


def _columns(frames: list[pd.DataFrame]) -> int:
    """Return the number of panels in a row: as many as fit beside the names, about the same in each row."""
    names = max((text_width(name, SIZE) for frame in frames for name in _short_names(frame)), default=0)
    once = all(_alike(*pair) for pair in pairwise(frames))
    room = (WIDTH - names) / NARROWEST if once else WIDTH / (NARROWEST + names)
    most = min(MOST, int(room))
    return max(min(most, COLUMNS), math.ceil(len(frames) / math.ceil(len(frames) / most)))


def _alike(frame: pd.DataFrame, other: pd.DataFrame) -> bool:
    """Return True if both have the same bars in the same order."""
    return frame[["bar", "group"]].to_numpy().tolist() == other[["bar", "group"]].to_numpy().tolist()


def _short_names(frame: pd.DataFrame) -> list[str]:
    return [shorten(str(name), LONGEST) for name in frame["bar"]]


def _centers(frame: pd.DataFrame) -> NDArray[np.float64]:
    """Return the centers of the bars from the top: 0, 1, and so on, with a gap between groups."""
    groups = frame["group"].tolist()
    steps = [1.0 if group == before else 1 + GAP for before, group in pairwise(groups)]
    return np.cumsum([0.0, *steps])[: len(groups)]


def _names(ax: Axes, frame: pd.DataFrame, labeled: bool) -> None:
    names = _short_names(frame)
    ax.set_yticks(_centers(frame), names if labeled else [""] * len(names), fontsize=SIZE)
    ax.tick_params(axis="y", length=0)


def _bars(ax: Axes, frame: pd.DataFrame, colors: dict[str, str], chance: float | None, first: bool) -> None:
    """Draw bars, then lines, then whiskers; a dash for a missing value."""
    if frame.empty:
        return nothing(ax)
    values, low, high = frame[["value", "low", "high"]].to_numpy(np.float64).T
    centers = _centers(frame)
    for line, center in enumerate(centers):
        name, group = str(frame["bar"].iloc[line]), str(frame["group"].iloc[line])
        if np.isnan(values[line]):
            ax.text(0.015 * ax.get_xlim()[1], center, "–", va="center", fontsize=SIZE)
        else:
            text = _hover_text(name, group, values[line], low[line], high[line])
            hover(ax.barh(center, values[line], 0.8, color=colors[group])[0], text)
    ends = [-0.6, centers[-1] + 0.6]
    if chance is not None:
        ax.plot([chance, chance], ends, **CHANCE)
    if first:
        ax.plot(values[[0, 0]], ends, **FIRST)
    ax.plot(*_whiskers(centers, low, high), **WHISKER)


def _whiskers(
    centers: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return x and y of one broken line that draws every interval with its two ends."""
    gap = np.full(len(centers), np.nan)
    x = np.stack([low, low, gap, low, high, gap, high, high, gap], 1)
    x[np.isnan(low) | np.isnan(high)] = np.nan
    y = centers[:, None] + np.array([-CAP, CAP, 0, 0, 0, 0, -CAP, CAP, 0])
    return x.ravel(), y.ravel()


def _hover_text(name: str, group: str, value: float, low: float, high: float) -> str:
    """Return the hover text of a bar."""
    whose = name if name == group else f"{name} ({group})"
    interval = "" if np.isnan(low) or np.isnan(high) else f" [{low:.3f}, {high:.3f}]"
    return f"{whose}: {value:.3f}{interval}"
