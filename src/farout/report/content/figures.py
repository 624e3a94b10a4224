"""Figures as data: what each kind of figure shows, for the report to draw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray


@dataclass(frozen=True)
class Captioned:
    """A figure: a name for links, a title, and a caption that explains it."""

    name: str
    title: str
    caption: str


@dataclass(frozen=True)
class Scores:
    """Scores of the inliers, and of every outlier set by its label."""

    inliers: NDArray[np.float64]
    outliers: dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Densities(Captioned):
    """Score distributions: one panel per detector, one curve per image set, the inliers first."""

    panels: dict[str, Scores]


@dataclass(frozen=True)
class HeatMap(Captioned):
    """Values in [0, 1] such as AUROC: one panel per scenario, a row per detector; NaN is not there yet."""

    panels: dict[str, pd.DataFrame]


@dataclass(frozen=True)
class Histograms(Captioned):
    """A few values per group: groups lie over each other in a panel, all panels share bins over `limits`."""

    panels: dict[str, dict[str, NDArray[np.float64]]]
    limits: tuple[float, float]


@dataclass(frozen=True)
class Strip:
    """A row of images with a word under each."""

    title: str
    images: NDArray[np.uint8]  # [n, H, W, 1 or 3]
    words: list[str]


@dataclass(frozen=True)
class Gallery(Captioned):
    """Rows of images: the worst failures."""

    strips: list[Strip]


@dataclass(frozen=True)
class Sheet(Captioned):
    """Rows of small images, one under the other, so that columns can be compared."""

    strips: list[Strip]


@dataclass(frozen=True)
class Curve:
    """A line within its band."""

    x: NDArray[np.float64]  # [K], positive
    y: NDArray[np.float64]  # [K]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


@dataclass(frozen=True)
class Curves(Captioned):
    """How something goes down with effort: one panel per detector, a curve per method, effort on a log axis."""

    panels: dict[str, dict[str, Curve]]
    labels: tuple[str, str]
    """Of both axes."""


@dataclass(frozen=True)
class Bars(Captioned):
    """Values in [0, 1] with intervals as bars: one panel per detector, colored by group, the first as a reference."""

    panels: dict[str, pd.DataFrame]
    """Columns `bar` (what stands beside it), `group` (its color), `value`, `low` and `high`; in the order drawn."""
    label: str
    """Of the axis of values."""


@dataclass(frozen=True)
class Scatter(Captioned):
    """Pairs of values in [0, 1] and the diagonal: one panel per detector, points colored by group."""

    panels: dict[str, dict[str, NDArray[np.float64]]]
    """By detector and group, [N, 2]."""
    labels: tuple[str, str]
    """Of both axes."""


@dataclass(frozen=True)
class DensityMap(Captioned):
    """Where pairs of values lie densest: one panel per group, all with the same axes."""

    panels: dict[str, NDArray[np.float64]]
    """By group, [N, 2]."""
    labels: tuple[str, str]
    """Of both axes."""
    limits: tuple[tuple[float, float], tuple[float, float]]
    """Of both axes; what lies beyond is shown at the edge."""


@dataclass(frozen=True)
class Surface:
    """Values at points of the unit square, and where searches for the lowest value have ended."""

    points: NDArray[np.float64]  # [N, 2]
    values: NDArray[np.float64]  # [N]
    ends: NDArray[np.float64]  # [M, 2]


@dataclass(frozen=True)
class Landscapes(Captioned):
    """Landscape of a search in two coordinates: one panel per detector and method, low values dark."""

    panels: dict[str, Surface]
    labels: tuple[str, str]
    """Of both axes."""


Shown = Densities | HeatMap | Histograms | Gallery | Sheet | Curves | Bars | Scatter | DensityMap | Landscapes
"""A figure of any kind; the report knows how to draw each."""
