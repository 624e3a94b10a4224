"""Page of the live view: a frame that its script fills, and the tables of the results so far."""

from __future__ import annotations

from markupsafe import Markup

from farout.report.charts import Palette
from farout.report.content import Document
from farout.report.content.verdicts import headlines
from farout.report.live.server import Page
from farout.report.resources import fill, policy, resource, script_text
from farout.report.views.parts import table_view
from farout.report.views.standing import matrix_view


def frame(folder: str) -> Page:
    """Return the page, which is the same at all times; `folder`: the run, as the user named it."""
    script = script_text(resource("live.js"))
    style = Markup(resource("page.css") + resource("plain.css") + resource("live.css"))
    html = fill("live.html", {"folder": folder, "style": style, "script": Markup(script)})
    return Page(lambda: html, policy=f"{policy([script])}; connect-src 'self'")


def tables(document: Document) -> str:
    """Return the verdicts in short, the table of all detectors, and the first table of every protocol."""
    overview = document.overview
    palette = Palette(list(dict.fromkeys(subject.detector for subject in overview.subjects)))
    first = [summary.tables[0] for summary in document.summaries.values() if summary.tables]
    values = {
        "headlines": headlines(overview),
        "matrix": matrix_view(overview, palette) if overview.conditions else None,
        "tables": [table_view(table) for table in first],
    }
    return fill("live_tables.html", values)
