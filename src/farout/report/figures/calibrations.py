"""Reliability diagrams: accuracy by confidence, with the diagonal of a calibrated network."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from farout.report.content import Calibrations, Curve
from farout.report.figures.style import COLORS, COLUMNS, INK, colors_of, grid, legend

DIAGONAL = {"color": INK, "linewidth": 0.8, "linestyle": ":"}


def draw(figure: Calibrations) -> Figure:
    """Draw a panel of curves with their intervals for each network."""
    colors = colors_of(figure.panels.values(), COLORS)
    canvas, axes = grid(figure.panels, 2.9)
    for ax, curves in zip(axes, figure.panels.values(), strict=True):
        _lines(ax, curves, colors)
    for ax in axes[::COLUMNS]:
        ax.set_ylabel("accuracy")
    for ax in axes[-COLUMNS:]:
        ax.set_xlabel("confidence")
    handles = [Line2D([], [], color=color, marker="o", markersize=3, label=name) for name, color in colors.items()]
    legend(canvas, [*handles, Line2D([], [], label="calibrated", **DIAGONAL)])  # type: ignore[arg-type]
    return canvas


def _lines(ax: Axes, curves: dict[str, Curve], colors: dict[str, str]) -> None:
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax.plot([0, 1], [0, 1], **DIAGONAL)  # type: ignore[arg-type]
    for name, curve in curves.items():
        known = ~np.isnan(curve.y)
        ax.plot(curve.x[known], curve.y[known], color=colors[name], marker="o", markersize=3, linewidth=1.2)
        ax.vlines(curve.x[known], curve.low[known], curve.high[known], color=colors[name], linewidth=0.8)
