"""Curves over effort, each with a band."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from farout.report.content import Curve, Curves
from farout.report.figures.style import COLORS, COLUMNS, colors_of, grid, legend

LARGEST = 1e100
"""Values beyond are drawn at this one: axes cannot span all of float64."""


def draw(figure: Curves) -> Figure:
    """Draw a panel of curves over their bands for each detector, with a dotted line at zero."""
    colors = colors_of(figure.panels.values(), COLORS[1:])
    canvas, axes = grid(figure.panels, 2.3)
    for ax, curves in zip(axes, figure.panels.values(), strict=True):
        _lines(ax, curves, colors)
    for ax in axes[::COLUMNS]:
        ax.set_ylabel(figure.labels[1])
    for ax in axes[-COLUMNS:]:
        ax.set_xlabel(figure.labels[0])
    legend(canvas, [Line2D([], [], color=color, label=name) for name, color in colors.items()])
    return canvas


def _lines(ax: Axes, curves: dict[str, Curve], colors: dict[str, str]) -> None:
    """Draw bands first, then lines; lines drawn first are wider, so that they show under later ones."""
    ax.set_xscale("log")
    wide = max(curve.x[-1] / curve.x[0] for curve in curves.values()) >= 100
    ax.xaxis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5), numticks=6))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.axhline(0, color=COLORS[0], linewidth=0.8, linestyle=":")
    for name, curve in curves.items():
        low, high = (np.clip(side, -LARGEST, LARGEST) for side in (curve.low, curve.high))
        ax.fill_between(curve.x, low, high, color=colors[name], alpha=0.13, linewidth=0)
    for (name, curve), width in zip(
        curves.items(), np.linspace(1.2 + 0.4 * len(curves), 1.6, len(curves)), strict=True
    ):
        ax.plot(curve.x, np.clip(curve.y, -LARGEST, LARGEST), color=colors[name], linewidth=width)
    _limit(ax, curves)


def _limit(ax: Axes, curves: dict[str, Curve]) -> None:
    """Limit the axis to zero, all bands and the ends of lines; a mean far from its band may start outside."""
    seen = np.concatenate([[0.0], *([*curve.low, *curve.high, curve.y[-1]] for curve in curves.values())])
    seen = np.clip(seen[~np.isnan(seen)], -LARGEST, LARGEST)
    margin = 0.05 * np.ptp(seen)
    if seen.min() - margin < seen.max() + margin:
        ax.set_ylim(seen.min() - margin, seen.max() + margin)
