"""Report in short for a notebook: verdicts, the table of all detectors, and figures as pictures; no scripts.

The styles apply to this output only, and follow the notebook's own colors, light or dark.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from typing import Any

from markupsafe import Markup

from farout.report.charts import Palette
from farout.report.content import Document, Shown
from farout.report.content.verdicts import headlines
from farout.report.export import DRAW, is_drawn, ordered
from farout.report.figures.style import CROPPED, style
from farout.report.resources import fill, resource
from farout.report.views.parts import lead, table_view
from farout.report.views.standing import matrix_view, verdict_views

FEW, MOST = 5, 30
"""Largest numbers of verdicts that are shown, and that are shown or folded."""
DPI = 90
LARGEST = 1_500_000
"""Largest number of characters of the figures together, and of the table of all detectors."""


def notebook(document: Document) -> str:
    """Return the output of a notebook's cell; it loads nothing, and all text is escaped."""
    overview = document.overview
    palette = Palette(list(dict.fromkeys(subject.detector for subject in overview.subjects)))
    verdicts = verdict_views(overview, palette)
    figures, left_out = _figures(document, palette)
    values = {
        "document": document, "style": Markup(resource("plain.css")), "headlines": headlines(overview),
        "verdicts": verdicts[:FEW], "others": verdicts[FEW:MOST], "more": len(verdicts[MOST:]),
        "matrix": Markup(_matrix(document, palette)), "figures": figures, "left_out": left_out,
        "tables": [] if verdicts else [table_view(one.tables[0]) for one in document.summaries.values() if one.tables],
    }  # fmt: skip
    return fill("notebook.html", values)


def _matrix(document: Document, palette: Palette) -> str:
    """Return the table of all detectors; empty without results, or if it is too large."""
    if not document.overview.conditions:
        return ""
    text = fill("notebook_matrix.html", {"matrix": matrix_view(document.overview, palette)})
    return text if len(text) <= LARGEST else ""


def _figures(document: Document, palette: Palette) -> tuple[list[dict[str, Any]], int]:
    """Return the first figure of every protocol, and the number of figures that are left out."""
    every = [figure for summary in document.summaries.values() for figure in summary.figures]
    shown, room = [], LARGEST
    for figure in _first(document):
        source = _picture(ordered(figure, palette))
        if len(source) <= room:
            room -= len(source)
            shown.append({"title": figure.title, "lead": lead(figure.caption), "source": source})
    return shown, len(every) - len(shown)


def _first(document: Document) -> Iterator[Shown]:
    for summary in document.summaries.values():
        yield from [figure for figure in summary.figures if is_drawn(figure)][:1]


def _picture(figure: Shown) -> str:
    """Return the figure as a PNG data URL."""
    buffer = io.BytesIO()
    with style():
        DRAW[type(figure)](figure).savefig(buffer, format="png", dpi=DPI, **CROPPED)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
