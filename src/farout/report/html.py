"""HTML report: one self-contained file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from farout.files import write_text
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
    Strip,
    Summary,
    Table,
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
from farout.report.figures.images import png
from farout.report.figures.style import svg
from farout.report.readable import legend, marks_of, readable
from farout.report.tables import write_tables


def render(document: Document) -> str:
    """Return the report as HTML; all text is escaped, and the page loads nothing."""
    environment = Environment(
        loader=PackageLoader("farout", "report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("template.html").render(
        document=document,
        sections=[_section(name, summary) for name, summary in document.summaries.items()],
        fitted=[_table(table) for table in document.fitted],
        spec=yaml.safe_dump(document.spec, sort_keys=False, allow_unicode=True) if document.spec else "",
    )


def write_report(document: Document, path: Path) -> Path:
    """Write the report to `path` (in a folder: report.html) and its tables to a folder beside it. Return the path.

    The folder is `tables`, or `NAME_tables` if the report is not called report.html.
    """
    if path.suffix != ".html":
        path = path / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, render(document))
    write_tables(document.tables, path.parent / ("tables" if path.stem == "report" else f"{path.stem}_tables"))
    return path


def _section(name: str, summary: Summary) -> dict[str, Any]:
    return {
        "name": name,
        "title": summary.title,
        "tables": [_table(table) for table in summary.tables],
        "figures": [_figure(figure) for figure in summary.figures],
    }


def _table(table: Table) -> dict[str, Any]:
    columns = readable(table)
    cells = [list(zip(values, marks_of(table, column), strict=True)) for column, values in columns.items()]
    return {
        "title": table.title,
        "caption": table.caption,
        "marked": legend(table),
        "columns": [(table.columns[column], column.better) for column in columns],
        "rows": list(zip(*cells, strict=True)),
        "name": table.name,
    }


def _figure(figure: Shown) -> dict[str, Any]:
    parts: dict[str, Any] = {"svg": "", "strips": [], "rows": [], **PARTS[type(figure)](figure)}
    return {"title": figure.title, "caption": figure.caption, **parts}


def _draw_svg(draw: Callable[[Any], Figure]) -> Callable[[Any], dict[str, Any]]:
    return lambda figure: {"svg": Markup(svg(draw, figure))}  # generated here; texts in it are escaped


def _strip(strip: Strip) -> tuple[str, list[tuple[str, str]]]:
    return strip.title, [(png(image), word) for image, word in zip(strip.images, strip.words, strict=True)]


PARTS: dict[type[Shown], Callable[[Any], dict[str, Any]]] = {
    Densities: _draw_svg(densities.draw),
    HeatMap: _draw_svg(heat_map.draw),
    Histograms: _draw_svg(histograms.draw),
    Gallery: lambda gallery: {"strips": list(map(_strip, gallery.strips))},
    Sheet: lambda sheet: {"rows": list(map(_strip, sheet.strips))},
    Curves: _draw_svg(curves.draw),
    Bars: _draw_svg(bars.draw),
    Radar: _draw_svg(radar.draw),
    Calibrations: _draw_svg(calibrations.draw),
    Scatter: _draw_svg(scatter.draw),
    DensityMap: _draw_svg(density_map.draw),
    Landscapes: _draw_svg(landscapes.draw),
}
"""Functions that render each kind of figure, as values for the template."""
