"""Interactive charts of the page: one function per kind of figure, which returns plotly's data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from farout.report.charts.distributions import densities, histograms
from farout.report.charts.lines import calibrations, curves, radar
from farout.report.charts.maps import density_map, heat_map, landscapes
from farout.report.charts.marks import bars, scatter
from farout.report.charts.palette import Palette
from farout.report.charts.panels import Chart, Panel
from farout.report.content import (
    Bars,
    Calibrations,
    Curves,
    Densities,
    DensityMap,
    HeatMap,
    Histograms,
    Landscapes,
    Radar,
    Scatter,
    Shown,
)

__all__ = ["CHARTS", "Chart", "Palette", "Panel"]

CHARTS: dict[type[Shown], Callable[[Any, Palette], Chart]] = {
    Densities: densities,
    HeatMap: heat_map,
    Histograms: histograms,
    Curves: curves,
    Bars: bars,
    Radar: radar,
    Calibrations: calibrations,
    Scatter: scatter,
    DensityMap: density_map,
    Landscapes: landscapes,
}
"""Functions that return the chart of each kind of figure."""
