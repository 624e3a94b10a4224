"""Tables, charts and pictures for the template."""

from __future__ import annotations

import re
from typing import Any

from farout.report.charts import CHARTS, Palette
from farout.report.content import LABEL, Gallery, Sheet, Shown, Strip, Table
from farout.report.figures.images import png
from farout.report.readable import legend, marks_of, readable


def table_view(table: Table) -> dict[str, Any]:
    """Return the columns and rows as printed."""
    columns = readable(table)
    cells = [list(zip(values, marks_of(table, column), strict=True)) for column, values in columns.items()]
    return {
        "title": table.title,
        "caption": table.caption,
        "lead": lead(table.caption),
        "marked": legend(table),
        "columns": [
            (table.columns[column], column.better, "text" if column.kind is LABEL else "number") for column in columns
        ],
        "rows": list(zip(*cells, strict=True)),
        "name": table.name,
    }


def lead(caption: str) -> str:
    """Return the first sentence of a caption, and the first that says which direction is better."""
    sentences = re.split(r"(?<=\.)\s+(?=[A-Z])", caption)
    better = next((sentence for sentence in sentences if "better" in sentence), sentences[0])
    return " ".join(dict.fromkeys([sentences[0], better]))


def figure_view(figure: Shown, palette: Palette, charts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a figure; the data of its charts are appended to `charts`, and referred to by their places."""
    about: dict[str, Any] = {"title": figure.title, "caption": figure.caption, "name": figure.name}
    about["lead"] = lead(figure.caption)
    if isinstance(figure, Gallery | Sheet):
        strips = [_strip(figure.title, strip) for strip in figure.strips]
        return {**about, "panels": [], "strips": strips, "sheet": isinstance(figure, Sheet)}
    if not figure.panels:
        return {**about, "panels": [], "strips": [], "sheet": False}
    chart = CHARTS[type(figure)](figure, palette)
    panels = []
    for panel in chart.panels:
        ranked = palette.rank(panel.title) is not None
        dot = palette.detector(panel.title) if ranked else ""
        label = f"{figure.title}: {panel.title}"
        panels.append({"title": panel.title, "label": label, "dot": dot, "height": panel.height, "key": len(charts)})
        charts.append(panel.json)
    shown: dict[str, Any] = {
        "legend": chart.legend,
        "scale": chart.scale,
        "scale_kind": chart.scale_kind,
        "width": chart.width,
    }
    shown["lowest"] = f"{chart.lowest:g}".replace("-", "−")
    return {**about, **shown, "panels": panels, "strips": [], "sheet": False}


def _strip(figure: str, strip: Strip) -> dict[str, Any]:
    images = [
        (png(image), word, ", ".join(filter(None, (figure, strip.title, word, f"picture {place + 1}"))))
        for place, (image, word) in enumerate(zip(strip.images, strip.words, strict=True))
    ]
    return {"title": strip.title, "images": images, "detector": strip.detector, "stress": strip.stress}


def is_worst_case(figure: Shown) -> bool:
    """Return True for pictures that belong to a detector or a stress."""
    return isinstance(figure, Gallery | Sheet) and any(strip.detector or strip.stress for strip in figure.strips)
