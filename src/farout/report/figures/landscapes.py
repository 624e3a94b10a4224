"""Score landscapes over the unit square, with the end points of searches."""

from __future__ import annotations

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.interpolate import griddata

from farout.report.content import Landscapes, Surface
from farout.report.figures.style import COLUMNS, grid, hover, nothing

HEIGHT = 2.9
"""Height of a panel in inches."""
CELLS = 64
"""Number of cells along each axis."""
HIGHEST = 0.95
"""Quantile of the values above which the color is the lightest: a few high peaks would hide the valleys."""
COLORS = colormaps["cividis"]


def draw(figure: Landscapes) -> Figure:
    """Draw one panel for each surface, all over the unit square."""
    canvas, axes = grid(figure.panels, HEIGHT)
    for ax, surface in zip(axes, figure.panels.values(), strict=True):
        _panel(ax, surface)
    for ax in axes[::COLUMNS]:
        ax.set_ylabel(figure.labels[1])
    for ax in axes[-COLUMNS:]:
        ax.set_xlabel(figure.labels[0])
    return canvas


def _panel(ax: Axes, surface: Surface) -> None:
    """Draw the surface, its lowest point as a cross, and circles at the end points of searches."""
    ax.set(xlim=(0, 1), ylim=(0, 1))
    known = np.isfinite(surface.values)
    if not known.any():
        return nothing(ax)
    points, values = surface.points[known], surface.values[known]
    low, high = values.min(), np.quantile(values, HIGHEST)
    ax.imshow(
        _cells(points, values), origin="lower", extent=(0, 1, 0, 1), aspect="auto", cmap=COLORS, vmin=low, vmax=high,
        interpolation="nearest",
    )  # fmt: skip
    x, y = points[values.argmin()]
    (cross,) = ax.plot(x, y, marker="x", color="white", markersize=9, markeredgewidth=1.6, linestyle="")
    hover(cross, f"lowest of {len(values):,} points: {low:.3g}")
    (circles,) = ax.plot(
        *surface.ends.T, marker="o", color="#d9480f", markersize=6, markeredgecolor="white", linestyle="", alpha=0.8,
        clip_on=False,
    )  # fmt: skip
    hover(circles, f"{len(surface.ends)} chains")


def _cells(points: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the value of the nearest point for the middle of every cell, [CELLS, CELLS], the first row at y = 0."""
    middles = (np.arange(CELLS) + 0.5) / CELLS
    x, y = np.meshgrid(middles, middles)
    cells: NDArray[np.float64] = griddata(points, values, (x, y), method="nearest")
    return cells
