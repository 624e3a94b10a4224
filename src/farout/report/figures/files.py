"""Figures for print: one SVG file per figure, drawn by matplotlib in the order of the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from farout.files import make_folder, write_text
from farout.report.charts import Palette
from farout.report.content import (
    Bars,
    Calibrations,
    Curves,
    Densities,
    DensityMap,
    Document,
    Gallery,
    HeatMap,
    Histograms,
    Landscapes,
    Radar,
    Scatter,
    Sheet,
    Shown,
)
from farout.report.figures import (
    bars,
    calibrations,
    curves,
    densities,
    density_map,
    heat_map,
    histograms,
    landscapes,
    radar,
    scatter,
)
from farout.report.figures.style import svg

DRAW: dict[type[Shown], Callable[[Any], Figure]] = {
    Densities: densities.draw,
    HeatMap: heat_map.draw,
    Histograms: histograms.draw,
    Curves: curves.draw,
    Bars: bars.draw,
    Radar: radar.draw,
    Calibrations: calibrations.draw,
    Scatter: scatter.draw,
    DensityMap: density_map.draw,
    Landscapes: landscapes.draw,
}
"""Functions that draw each kind of figure."""


def write_figures(document: Document, folder: Path) -> list[Path]:
    """Write every figure that has panels as PROTOCOL_NUMBER.svg; return the paths."""
    make_folder(folder, folder.parent)
    palette = Palette(list(dict.fromkeys(subject.detector for subject in document.overview.subjects)))
    paths = []
    for protocol, summary in document.summaries.items():
        for number, figure in enumerate(summary.figures):
            if not isinstance(figure, Gallery | Sheet) and figure.panels:
                paths.append(folder / f"{protocol}_{number}.svg")
                write_text(paths[-1], svg(DRAW[type(figure)], _ordered(figure, palette)), folder.parent)
    return paths


def _ordered(figure: Any, palette: Palette) -> Any:
    """Return the figure with the panels of detectors best first."""
    return replace(figure, panels={name: figure.panels[name] for name in palette.ordered(figure.panels)})
