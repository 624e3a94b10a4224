"""Score distributions."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from farout.protocols.summary import Densities
from farout.report.figures.style import COLORS, colors_of, grid, legend

BINS = 60
LARGEST = 1e100
"""Scores beyond are drawn at this one: axes cannot span all of float64."""


def draw(figure: Densities) -> Figure:
    """One small histogram panel per detector."""
    colors = colors_of(figure.panels.values(), COLORS)
    canvas, axes = grid(figure.panels, 2.1)
    for ax, curves in zip(axes, figure.panels.values(), strict=True):
        _curves(ax, curves, colors)
    legend(canvas, [Patch(facecolor=color, label=name) for name, color in colors.items()])
    return canvas


def _curves(ax: Axes, curves: dict[str, NDArray[np.float64]], colors: dict[str, str]) -> None:
    """Histograms of shared bins between the outer half percents; what lies beyond is put into the last bins."""
    everything = np.concatenate(list(curves.values())).clip(-LARGEST, LARGEST)
    low, high = np.quantile(everything, [0.005, 0.995])
    least = 1e-5 * max(abs(low), abs(high), 1 / LARGEST)  # narrower cannot be drawn
    if high - low <= least:
        low, high = (low, low + max(1, least)) if high == low else (low - least, high + least)
    edges = np.linspace(low, high, BINS + 1)
    for name, scores in curves.items():
        shares = np.histogram(scores.clip(edges[0], edges[-1]), edges)[0] / len(scores)
        inliers = name == "inliers"
        ax.stairs(np.sqrt(shares), edges, color=colors[name], fill=inliers, alpha=0.45 if inliers else 1)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
