"""Score distributions."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from farout.report.content import Densities, Scores
from farout.report.figures.style import COLORS, colors_of, grid, legend

BINS = 60
LARGEST = 1e100
"""Scores beyond are drawn at this one: axes cannot span all of float64."""


def draw(figure: Densities) -> Figure:
    """Draw a histogram panel per detector; inliers are filled and in the first color."""
    outliers = colors_of((panel.outliers for panel in figure.panels.values()), (*COLORS[1:], COLORS[0]))
    canvas, axes = grid(figure.panels, 2.1)
    for ax, panel in zip(axes, figure.panels.values(), strict=True):
        _curves(ax, panel, outliers)
    sets = [Patch(facecolor=color, label=name) for name, color in outliers.items()]
    legend(canvas, [Patch(facecolor=COLORS[0], label="inliers"), *sets])
    return canvas


def _curves(ax: Axes, panel: Scores, colors: dict[str, str]) -> None:
    """Draw histograms with shared bins between the 0.5 % and 99.5 % quantiles; scores beyond are in the outer bins."""
    outliers = ((scores, colors[name], False) for name, scores in panel.outliers.items())
    curves = [(panel.inliers, COLORS[0], True), *outliers]
    everything = np.concatenate([scores for scores, _, _ in curves]).clip(-LARGEST, LARGEST)
    low, high = np.quantile(everything, [0.005, 0.995])
    least = 1e-5 * max(abs(low), abs(high), 1 / LARGEST)  # narrower cannot be drawn
    if high - low <= least:
        low, high = (low, low + max(1, least)) if high == low else (low - least, high + least)
    edges = np.linspace(low, high, BINS + 1)
    for scores, color, filled in curves:
        if len(scores):
            fractions = np.histogram(scores.clip(edges[0], edges[-1]), edges)[0] / len(scores)
            ax.stairs(np.sqrt(fractions), edges, color=color, fill=filled, alpha=0.45 if filled else 1)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
