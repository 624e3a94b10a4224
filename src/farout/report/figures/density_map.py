"""Two-dimensional histograms: a panel of colored cells for each group."""

from __future__ import annotations

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray

from farout.report.content import DensityMap
from farout.report.figures.style import COLUMNS, INK, grid, hover, nothing

HEIGHT = 2.6
"""Height of a panel in inches."""
CELLS = 24
"""Number of cells along each axis."""
COLORS = colormaps["YlOrRd"].with_extremes(bad="white")
SCALE = PowerNorm(0.5, 0, 1)
"""Color scale by square roots relative to the densest cell, so that sparse cells are visible."""


def draw(figure: DensityMap) -> Figure:
    """Draw a panel for each group, all with the same axes; a cross marks the medians."""
    canvas, axes = grid(figure.panels, HEIGHT)
    for ax, pairs in zip(axes, figure.panels.values(), strict=True):
        _panel(ax, pairs, figure.limits)
    for ax in axes[::COLUMNS]:
        ax.set_ylabel(figure.labels[1])
    for ax in axes[-COLUMNS:]:
        ax.set_xlabel(figure.labels[0])
    return canvas


def _panel(ax: Axes, pairs: NDArray[np.float64], limits: tuple[tuple[float, float], tuple[float, float]]) -> None:
    """Draw a panel; cells without pairs are white, pairs beyond the limits count in the outermost cells."""
    known = pairs[np.isfinite(pairs).all(1)]
    ax.set(xlim=limits[0], ylim=limits[1])
    if not len(known):
        return nothing(ax)
    edges = [np.linspace(low, high, CELLS + 1) for low, high in limits]
    first, second = (values.clip(*limit) for values, limit in zip(known.T, limits, strict=True))
    counts, _, _ = np.histogram2d(first, second, bins=edges)
    relative = np.ma.masked_equal(counts.T / counts.max(), 0)
    ax.imshow(
        relative, origin="lower", extent=(*limits[0], *limits[1]), aspect="auto", cmap=COLORS, norm=SCALE,
        interpolation="nearest",
    )  # fmt: skip
    x, y = np.median(known, 0)
    (cross,) = ax.plot(x, y, marker="+", color=INK, markersize=9, markeredgewidth=1.4)
    hover(cross, f"{len(known):,} images, medians {x:.3f}, {y:.3f}")
