"""Radar plots: one axis per image set, one closed line per network."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.projections.polar import PolarAxes

from farout.report.content import Radar
from farout.report.figures.style import COLORS, COLUMNS, WIDTH, colors_of, legend, shorten

LONGEST = 22
"""Largest number of characters of an axis' name in a line."""


def draw(figure: Radar) -> Figure:
    """Draw a panel for each measure; all axes run from 0 in the center to 1."""
    colors = colors_of(({str(name): None for name in frame.index} for frame in figure.panels.values()), COLORS[1:])
    columns = min(COLUMNS, len(figure.panels))
    rows = -(-len(figure.panels) // columns)
    canvas = Figure(figsize=(WIDTH * max(columns, 2) / COLUMNS, 3.6 * rows), layout="constrained")
    for number, (title, frame) in enumerate(figure.panels.items()):
        ax = canvas.add_subplot(rows, columns, number + 1, projection="polar")
        assert isinstance(ax, PolarAxes)
        ax.set_title(title, fontsize=10, pad=16)
        _lines(ax, frame, colors)
    legend(canvas, [Line2D([], [], color=color, label=name) for name, color in colors.items()])
    return canvas


def _lines(ax: PolarAxes, frame: pd.DataFrame, colors: dict[str, str]) -> None:
    """Draw one closed line per row; it has a gap at a missing value."""
    angles = np.linspace(0, 2 * np.pi, frame.shape[1], endpoint=False)
    names = [shorten(str(name), LONGEST, 2) for name in frame.columns]
    ax.set_theta_zero_location("N")
    ax.set_theta_direction(-1)
    ax.set_xticks(angles, names, fontsize=8)
    for label, angle in zip(ax.get_xticklabels(), angles, strict=True):
        side = round(float(np.sin(angle)), 3)
        label.set_horizontalalignment("left" if side > 0 else "right" if side < 0 else "center")
    ax.set_ylim(0, 1)
    ax.set_yticks([0.25, 0.5, 0.75, 1], ["", "0.5", "", "1"], fontsize=7)
    for name, values in zip(frame.index, frame.to_numpy(np.float64), strict=True):
        ax.plot(np.append(angles, angles[0]), np.append(values, values[0]), color=colors[str(name)], linewidth=1.4)
