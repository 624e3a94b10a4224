"""Histograms of a few values per group."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from farout.report.content import Histograms
from farout.report.figures.style import COLORS, COLUMNS, colors_of, grid, legend

BINS = 20
MEDIANS = 0.88
"""Fraction of a panel's height for the bars; medians are marked above."""


def draw(figure: Histograms) -> Figure:
    """Draw a panel of counts for each scenario, with a tick above at each group's median."""
    colors = colors_of(figure.panels.values(), COLORS[1:])
    canvas, axes = grid(figure.panels, 2.2)
    edges = np.linspace(*figure.limits, BINS + 1)
    for ax, groups in zip(axes, figure.panels.values(), strict=True):
        _bars(ax, groups, edges, colors)
    for ax in axes[::COLUMNS]:
        ax.set_ylabel("count")
    median = Line2D([], [], color="black", marker="|", markersize=9, markeredgewidth=2, linestyle="", label="median")
    legend(canvas, [*(Patch(facecolor=color, label=name) for name, color in colors.items()), median])
    return canvas


def _bars(ax: Axes, groups: dict[str, NDArray[np.float64]], edges: NDArray[np.float64], colors: dict[str, str]) -> None:
    """Draw counts and median of each group with values; values beyond the limits are in the outer bins."""
    highest = 1
    for name, values in groups.items():
        known = values[~np.isnan(values)]
        if not len(known):
            continue
        counts = np.histogram(known.clip(edges[0], edges[-1]), edges)[0]
        ax.stairs(counts, edges, fill=True, facecolor=colors[name], alpha=0.18)
        ax.stairs(counts, edges, color=colors[name], linewidth=1.3)
        ax.axvline(float(np.median(known)), MEDIANS + 0.02, 1, color=colors[name], linewidth=2)
        highest = max(highest, int(counts.max()))
    ax.set(xlim=edges[[0, -1]], ylim=(0, highest / MEDIANS))
    ax.yaxis.set_major_locator(MaxNLocator(4, integer=True))
