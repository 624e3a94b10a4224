"""Exports of a report: every table as Parquet, every drawn figure as PNG, SVG or PDF at print quality."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from farout.files import atomic_file, make_folder
from farout.report.charts import Palette
from farout.report.charts.maps import arranged
from farout.report.content import (
    Bars,
    Calibrations,
    Curves,
    Densities,
    DensityMap,
    Document,
    HeatMap,
    Histograms,
    Landscapes,
    Radar,
    Scatter,
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
from farout.report.figures.style import CROPPED, style, svg

PARQUET, PICTURES = "parquet", ("png", "svg", "pdf")
FORMATS = (PARQUET, *PICTURES)
DPI = 300
DRAW: dict[type[Shown], Callable[[Any], Figure]] = {
    Densities: densities.draw, HeatMap: heat_map.draw, Histograms: histograms.draw, Curves: curves.draw,
    Bars: bars.draw, Radar: radar.draw, Calibrations: calibrations.draw, Scatter: scatter.draw,
    DensityMap: density_map.draw, Landscapes: landscapes.draw,
}  # fmt: skip
"""Functions that draw each kind of figure; sheets of images are not drawn."""


def export(document: Document, folder: Path, formats: Collection[str]) -> list[Path]:
    """Write tables and figures in these formats to `folder/tables` and `folder/figures`; return the paths."""
    check_formats(formats)
    paths = write_parquet(document, make_folder(folder / "tables", folder)) if PARQUET in formats else []
    pictures = [name for name in PICTURES if name in formats]
    return [*paths, *(_figures(document, make_folder(folder / "figures", folder), pictures) if pictures else [])]


def check_formats(formats: Collection[str], known: Collection[str] = FORMATS) -> None:
    """Raise ValueError for an unknown format, with all `known` ones."""
    if unknown := [name for name in formats if name not in known]:
        raise ValueError(f"cannot export {', '.join(map(repr, unknown))}; the formats are {', '.join(known)}")


def write_parquet(document: Document, folder: Path) -> list[Path]:
    """Write every table with all digits; return the paths, in the order of the document's tables."""
    paths = [folder / f"{table.name}.parquet" for table in document.tables]
    for table, path in zip(document.tables, paths, strict=True):
        with atomic_file(path) as temporary:
            table.frame.apply(_of_one_type).to_parquet(temporary, index=False)
    return paths


def _of_one_type(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of mixed cells, such as counts and empty text, as text; Parquet columns have one type."""
    return column.astype(str) if column.dtype == object else column


def _figures(document: Document, folder: Path, formats: Sequence[str]) -> Iterator[Path]:
    palette = Palette(list(dict.fromkeys(subject.detector for subject in document.overview.subjects)))
    for protocol, summary in document.summaries.items():
        for number, figure in enumerate(summary.figures):
            if is_drawn(figure):
                name = re.sub(r"[^A-Za-z0-9_.-]+", "-", f"{protocol}_{number:02d}_{figure.name}")[:100]
                yield from _draw(ordered(figure, palette), folder / name, formats)


def is_drawn(figure: Shown) -> bool:
    """Return True for a figure that has a function to draw it, and something to be drawn."""
    return type(figure) in DRAW and bool(getattr(figure, "panels", None))


def ordered(figure: Any, palette: Palette) -> Any:
    """Return the figure with the panels, rows and columns of detectors in the order of the page, best first."""
    panels = {name: figure.panels[name] for name in palette.ordered(figure.panels)}
    if isinstance(figure, HeatMap):
        panels = {name: arranged(frame, palette) for name, frame in panels.items()}
    return replace(figure, panels=panels)


def _draw(figure: Shown, stem: Path, formats: Sequence[str]) -> Iterator[Path]:
    draw = DRAW[type(figure)]
    for name in formats:
        path = stem.with_name(f"{stem.name}.{name}")
        with atomic_file(path) as temporary, style():
            if name == "svg":
                temporary.write_text(svg(draw, figure), encoding="utf-8")
            else:
                draw(figure).savefig(temporary, format=name, dpi=DPI, **CROPPED)
        yield path
