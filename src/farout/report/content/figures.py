"""Figures as data: one class for each kind of figure that the report draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray


@dataclass(frozen=True)
class Captioned:
    """Base of all figures: a name for links, a title, and a caption that explains it."""

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
    """Heat map of values up to 1 such as AUROC: one panel per scenario, a row per detector; NaN: no result yet."""

    panels: dict[str, pd.DataFrame]
    label: str = "AUROC, 0.5 is chance"
    """Label of the color bar."""
    lowest: float = 0.0
    """Value at the red end of the colors; −1 for correlations."""
    about: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Texts beside the values in interactive charts, such as intervals; panels and cells as above."""


@dataclass(frozen=True)
class Histograms(Captioned):
    """Histograms of a few values per group: groups are overlaid in a panel, all panels share bins over `limits`."""

    panels: dict[str, dict[str, NDArray[np.float64]]]
    limits: tuple[float, float]


@dataclass(frozen=True)
class Strip:
    """Row of images with a text under each."""

    title: str
    images: NDArray[np.uint8]  # [n, H, W, 1 or 3]
    words: list[str]
    detector: str = ""
    """Detector that misjudges the images; empty if they belong to none."""
    stress: str = ""
    """Stress that the images were found under; empty if there is none."""


@dataclass(frozen=True)
class Gallery(Captioned):
    """Titled rows of images, such as the worst failures."""

    strips: list[Strip]


@dataclass(frozen=True)
class Sheet(Captioned):
    """Rows of small images, one under the other, so that columns can be compared."""

    strips: list[Strip]


@dataclass(frozen=True)
class Curve:
    """Curve with a band around it."""

    x: NDArray[np.float64]  # [K], positive
    y: NDArray[np.float64]  # [K]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


@dataclass(frozen=True)
class Curves(Captioned):
    """Curves over effort, such as the lowest score by queries: one panel per detector, effort on a log axis."""

    panels: dict[str, dict[str, Curve]]
    labels: tuple[str, str]
    """Labels of both axes."""


@dataclass(frozen=True)
class Bars(Captioned):
    """Bars of values with intervals: one panel per detector, colored by group; the first is the reference."""

    panels: dict[str, pd.DataFrame]
    """Columns `bar` (label), `group` (color), `value`, `low` and `high`; in the order drawn."""
    label: str
    """Label of the value axis."""
    limit: float = 1.0
    """End of the value axis, which starts at 0."""
    chance: float | None = 0.5
    """Value that chance reaches; None if there is none."""
    log: bool = False
    """True for a logarithmic value axis, whose limits are those of the values."""


@dataclass(frozen=True)
class Radar(Captioned):
    """Radar plot of values in [0, 1]: one panel per measure, one axis per image set, one closed line per network."""

    panels: dict[str, pd.DataFrame]
    """Values by network (row) and image set (column); NaN: no result yet."""


@dataclass(frozen=True)
class Calibrations(Captioned):
    """Reliability diagrams: accuracy by confidence with its interval, one panel per network, the diagonal is ideal."""

    panels: dict[str, dict[str, Curve]]
    """Curves by network and image set: x is the mean confidence of a bin, y its accuracy; NaN for an empty bin."""


@dataclass(frozen=True)
class Scatter(Captioned):
    """Scatter of pairs of values in [0, 1] with the diagonal: one panel per detector, points colored by group."""

    panels: dict[str, dict[str, NDArray[np.float64]]]
    """Pairs [N, 2] by detector and group."""
    labels: tuple[str, str]
    """Labels of both axes."""


@dataclass(frozen=True)
class DensityMap(Captioned):
    """Two-dimensional histogram of pairs of values: one panel per group, all with the same axes."""

    panels: dict[str, NDArray[np.float64]]
    """Pairs [N, 2] by group."""
    labels: tuple[str, str]
    """Labels of both axes."""
    limits: tuple[tuple[float, float], tuple[float, float]]
    """Limits of both axes; pairs beyond them are shown at the edge."""


@dataclass(frozen=True)
class Surface:
    """Values at points of the unit square, and the end points of searches for the lowest value."""

    points: NDArray[np.float64]  # [N, 2]
    values: NDArray[np.float64]  # [N]
    ends: NDArray[np.float64]  # [M, 2]


@dataclass(frozen=True)
class Landscapes(Captioned):
    """Landscapes of a search in two coordinates: one panel per detector and method, low values dark."""

    panels: dict[str, Surface]
    labels: tuple[str, str]
    """Labels of both axes."""


Shown = (
    Densities
    | HeatMap
    | Histograms
    | Gallery
    | Sheet
    | Curves
    | Bars
    | Radar
    | Calibrations
    | Scatter
    | DensityMap
    | Landscapes
)
"""Figure of any kind."""
