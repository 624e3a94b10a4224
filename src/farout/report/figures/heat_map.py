"""Heat maps of values in [0, 1]: cells of one size, as many panels side by side as the page holds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, ListedColormap, Normalize
from matplotlib.figure import Figure

from farout.report.content import HeatMap
from farout.report.figures.style import WIDTH, text_width

CELL, LINE = 0.28, 0.22
"""Width and height of a cell; all lengths are in inches."""
GAP, TITLE, BAR = 0.14, 0.36, 1.6
"""Space between panels, height of the titles, and length of the color bar."""
MOST = 4
"""Largest number of panels in a row."""
BAD = "#e3e6ea"
"""Color of a cell without a value."""
COLORS = colormaps["RdBu"].with_extremes(bad=BAD)
FRACTIONS = ListedColormap(COLORS(np.linspace(0.5, 1, 256))).with_extremes(bad=BAD)
"""Colors of values that chance does not divide: the upper half, from white to blue."""


@dataclass(frozen=True)
class _Panel:
    """Panel with the position of its cells in its row; without row labels if its left neighbor has the same."""

    title: str
    frame: pd.DataFrame
    left: float
    labeled: bool

    @property
    def right(self) -> float:
        return self.left + max(CELL * self.frame.shape[1], text_width(self.title, 10)) + GAP


def draw(figure: HeatMap) -> Figure:
    """Draw all panels and a color bar, on a canvas of their size."""
    reach = _reach(figure.panels.values())
    rows = _arrange(list(figure.panels.items()), reach)
    bottoms = np.cumsum([TITLE + LINE * max(len(panel.frame) for panel in row) + reach + 2 * GAP for row in rows])
    left = rows[0][0].left
    width = max(left + BAR + GAP, *(row[-1].right for row in rows))
    canvas = Figure(figsize=(width, bottoms[-1] + 5 * GAP))
    colors = COLORS if "chance" in figure.label or figure.lowest < 0 else FRACTIONS
    for row, top in zip(rows, [0, *bottoms], strict=False):
        for panel in row:
            shape = (CELL * panel.frame.shape[1], LINE * len(panel.frame))
            _cells(_axes(canvas, (panel.left, top + TITLE), shape), panel, figure.lowest, colors, slanted=reach > 0)
    _bar(_axes(canvas, (left, bottoms[-1] + GAP), (BAR, GAP)), figure, colors)
    return canvas


def _reach(frames: Iterable[pd.DataFrame]) -> float:
    """Return how far column labels at 45 degrees reach down and to the left; 0 if each fits under its cell."""
    longest = max(_widest(frame.columns) for frame in frames)
    return longest * math.sqrt(0.5) if longest > CELL else 0


def _widest(labels: Iterable[object]) -> float:
    return max((text_width(str(label), 8) for label in labels), default=0)


def _arrange(panels: list[tuple[str, pd.DataFrame]], reach: float) -> list[list[_Panel]]:
    """Return the panels in as few rows as fit the page, about the same number in each."""
    rows: list[list[_Panel]] = []
    for count in range(math.ceil(len(panels) / MOST), len(panels) + 1):
        size = math.ceil(len(panels) / count)
        rows = [_row(panels[start : start + size], reach) for start in range(0, len(panels), size)]
        if max(row[-1].right for row in rows) <= WIDTH:
            break
    return rows


def _row(panels: list[tuple[str, pd.DataFrame]], reach: float) -> list[_Panel]:
    """Return the panels of one row, from left to right."""
    row: list[_Panel] = []
    for title, frame in panels:
        labeled = not row or not frame.index.equals(row[-1].frame.index)
        left = row[-1].right if row else 0
        row.append(_Panel(title, frame, left + (max(_widest(frame.index), reach) + GAP if labeled else 0), labeled))
    return row


def _axes(canvas: Figure, corner: tuple[float, float], shape: tuple[float, float]) -> Axes:
    """Return axes without a frame, positioned by their upper left corner."""
    width, height = canvas.get_size_inches()
    bottom = height - corner[1] - shape[1]
    ax = canvas.add_axes((corner[0] / width, bottom / height, shape[0] / width, shape[1] / height))
    ax.spines[:].set_visible(False)
    return ax


def _cells(ax: Axes, panel: _Panel, lowest: float, colors: Colormap, slanted: bool) -> None:
    """Draw colored cells with their values, the first row on top."""
    values = panel.frame.to_numpy(np.float64)
    known, scale = np.ma.masked_invalid(values), Normalize(lowest, 1)
    mesh = ax.pcolormesh(known, cmap=colors, norm=scale, edgecolors="white", linewidth=0.7)
    for (row, column), value in np.ndenumerate(values):
        ink = _ink(mesh.to_rgba(np.ma.masked_invalid([value]))[0, :3])
        word = "–" if np.isnan(value) else f"{value:.2f}"
        ax.text(column + 0.5, row + 0.5, word, fontsize=7, color=ink, ha="center", va="center_baseline")
    _labels(ax, panel, slanted)


def _ink(color: np.ndarray) -> str:
    """Return black or white, whichever has the higher contrast to the color (WCAG 2.1)."""
    linear = np.where(color <= 0.04045, color / 12.92, ((color + 0.055) / 1.055) ** 2.4)
    return "white" if linear @ (0.2126, 0.7152, 0.0722) < 0.179 else "black"


def _labels(ax: Axes, panel: _Panel, slanted: bool) -> None:
    columns, rows = ([str(label) for label in axis] for axis in (panel.frame.columns, panel.frame.index))
    turned: dict[str, Any] = {"rotation": 45, "rotation_mode": "anchor", "ha": "right"} if slanted else {}
    ax.set_xticks(np.arange(len(columns)) + 0.5, columns, fontsize=8, **turned)
    ax.set_yticks(np.arange(len(rows)) + 0.5, rows if panel.labeled else [""] * len(rows), fontsize=8)
    ax.tick_params(length=0, pad=3)
    ax.invert_yaxis()
    ax.set_title(panel.title, loc="left", fontsize=10)


def _bar(ax: Axes, figure: HeatMap, colors: Colormap) -> None:
    """Draw the color bar."""
    edges, scale = np.linspace(figure.lowest, 1, 42), Normalize(figure.lowest, 1)
    middles, ticks = (edges[:-1] + edges[1:]) / 2, [figure.lowest, (figure.lowest + 1) / 2, 1]
    ax.pcolormesh(edges, [0, 1], middles[None], cmap=colors, norm=scale, edgecolors="face", linewidth=0.6)
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=8)
    ax.set_yticks([])
    ax.set_xlabel(figure.label, fontsize=8)
