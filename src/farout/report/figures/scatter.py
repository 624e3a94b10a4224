"""Scatter plots of pairs of values with the diagonal, and each group's median at the right."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from numpy.typing import NDArray

from farout.report.content import Scatter
from farout.report.figures.style import COLUMNS, DISTINCT, INK, grid, hover, legend, nothing

HEIGHT = 3.4
"""Height of a panel in inches."""
MARGIN, STEP = 0.03, 0.055
"""Margin around the values, so that no dot is cut, and space between the columns of medians."""
AT_ONCE = 100
"""Dots of a group that are drawn before those of the next group, so that no group hides the others."""
LENGTH = 1e-9
"""Length of the lines that are drawn as dots: zero to the digits of SVG and PDF; PNG leaves out lines without any."""
COLORS, MARKERS = DISTINCT[1:], "os^DvPX"
DIAGONAL: dict[str, Any] = {"color": INK, "linewidth": 0.9, "linestyle": "--"}
MEDIAN: dict[str, Any] = {"linestyle": "", "markersize": 6.5, "markeredgecolor": "white", "markeredgewidth": 0.7}

Groups = dict[str, NDArray[np.float64]]
Styles = dict[str, tuple[int, str]]
"""Index of the color and marker of each group."""


def draw(figure: Scatter) -> Figure:
    """Draw a panel for each detector; on the diagonal both values are equal."""
    styles = _assign_styles(list(dict.fromkeys(name for groups in figure.panels.values() for name in groups)))
    canvas, axes = grid(figure.panels, HEIGHT)
    for ax, groups in zip(axes, figure.panels.values(), strict=True):
        _panel(ax, groups, styles)
    for ax in axes[::COLUMNS]:
        ax.set_ylabel(figure.labels[1])
    for ax in axes[-COLUMNS:]:
        ax.set_xlabel(figure.labels[0], x=ax.title.get_position()[0])
    shown = [
        Line2D([], [], label=name, color=COLORS[color], marker=marker, **MEDIAN)
        for name, (color, marker) in styles.items()
    ]
    median = Line2D([], [], label="at the right: medians", color=INK, marker=MARKERS[0], **MEDIAN)
    legend(canvas, [*shown, Line2D([], [], label="equal", **DIAGONAL), median])
    return canvas


def _assign_styles(names: list[str]) -> Styles:
    """Return a color for each of a few groups; of many, neighbors share a color and differ in their markers."""
    sharing = math.ceil(len(names) / len(COLORS))
    return {name: (number // sharing, MARKERS[number % sharing % len(MARKERS)]) for number, name in enumerate(names)}


def _panel(ax: Axes, groups: Groups, styles: Styles) -> None:
    """Draw one panel; missing pairs are left out."""
    known = {name: pairs[np.isfinite(pairs).all(1)] for name, pairs in groups.items()}
    known = {name: pairs for name, pairs in known.items() if len(pairs)}
    _axes(ax, 1 + max((color for color, _ in styles.values()), default=0))
    if not known:
        return nothing(ax)
    ax.plot([0, 1], [0, 1], **DIAGONAL)
    _dots(ax, known, styles)
    _medians(ax, known, styles)


def _axes(ax: Axes, columns: int) -> None:
    """Set axes from 0 to 1 with space for columns of medians at the right; the title is centered above the values."""
    right = 1 + 2 * MARGIN + STEP * columns
    ax.set(xlim=(-MARGIN, right), ylim=(-MARGIN, 1 + MARGIN), aspect="equal")
    ax.spines["bottom"].set_bounds(-MARGIN, 1 + MARGIN)
    ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax.title.set_x((0.5 + MARGIN) / (right + MARGIN))


def _dots(ax: Axes, groups: Groups, styles: Styles) -> None:
    """Draw the dots of all groups in turns; the more there are, the smaller they are."""
    counts = [len(pairs) for pairs in groups.values()]
    size = float(np.clip(60 / math.sqrt(sum(counts)), 1.5, 4))
    for start in range(0, max(counts), AT_ONCE):
        for name, pairs in groups.items():
            part = pairs[start : start + AT_ONCE]
            if len(part):
                hover(ax.add_patch(_shape(part, size, COLORS[styles[name][0]])), name)


def _shape(pairs: NDArray[np.float64], size: float, color: str) -> PathPatch:
    """Return many dots as one path of zero-length lines with round ends, a tenth of the text of single dots."""
    ends = np.stack([pairs, pairs + LENGTH], 1).reshape(-1, 2)
    path = Path(ends, np.tile([Path.MOVETO, Path.LINETO], len(pairs)))
    path.should_simplify = False  # it would join dots
    return PathPatch(path, fill=False, edgecolor=color, linewidth=size, capstyle="round", alpha=0.75, snap=False)


def _medians(ax: Axes, groups: Groups, styles: Styles) -> None:
    """Draw the medians beside the panel, a column per color: inside, groups with equal first values would overlap."""
    for name, pairs in groups.items():
        color, marker = styles[name]
        x, y = np.median(pairs, 0)
        column = 1 + 2 * MARGIN + STEP * (color + 0.5)
        (marks,) = ax.plot(column, y, color=COLORS[color], marker=marker, clip_on=False, **MEDIAN)
        hover(marks, f"{name}: medians {x:.3f}, {y:.3f}")
