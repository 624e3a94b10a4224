"""HTML report: one self-contained file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from markupsafe import Markup

from farout.files import write_text
from farout.report.charts import Palette
from farout.report.content import Document, Summary
from farout.report.content.verdicts import headlines
from farout.report.resources import fill, json_text, policy, resource, script_text
from farout.report.tables import write_csv, write_tables
from farout.report.views.parts import figure_view, is_worst_case, table_view
from farout.report.views.standing import anchor, matrix_view, verdict_views

SCRIPTS = ("theme.js", "tables.js", "page.js")
FEW, MOST = 5, 9
"""Verdicts and panels of a figure that are shown before the others are folded."""


def render(document: Document, tables: str = "") -> str:
    """Return the report as HTML; all text is escaped, and the page loads nothing.

    tables: folder of the tables' CSV files, relative to the page; empty if they are not written.
    """
    from plotly.offline import get_plotlyjs

    charts: list[dict[str, Any]] = []
    overview = document.overview
    palette = Palette(list(dict.fromkeys(subject.detector for subject in overview.subjects)))
    sections = [_section(name, one, palette, charts) for name, one in document.sections.items()]
    scripts = [script_text(get_plotlyjs()), *map(script_text, map(resource, SCRIPTS))]
    values = {
        "document": document, "tables": tables, "few": FEW, "most": MOST,
        "headlines": headlines(overview), "verdicts": verdict_views(overview, palette),
        "matrix": matrix_view(overview, palette), "sections": sections, "pictures": _pictures(sections),
        "links": _links(document), "fitted": [table_view(table) for table in (*document.provenance, *document.fitted)],
        "results": document.results,
        "spec": yaml.safe_dump(document.spec, sort_keys=False, allow_unicode=True) if document.spec else "",
        "style": Markup(resource("page.css")), "scripts": [Markup(script) for script in scripts],
        "charts": Markup(json_text(charts)), "policy": policy(scripts),
    }  # fmt: skip
    return fill("template.html", values)


def write_report(document: Document, path: Path) -> Path:
    """Write the report to `path` (in a folder: report.html) and its tables to a folder beside it. Return the path.

    The folder is `tables`, or `NAME_tables` if the report is not called report.html.
    """
    if path.suffix != ".html":
        path = path / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = "tables" if path.stem == "report" else f"{path.stem}_tables"
    write_text(path, render(document, folder))
    write_all_tables(document, path.parent / folder)
    return path


def write_all_tables(document: Document, folder: Path) -> None:
    """Write the tables of the page as CSV and LaTeX, and the list of all stored results as CSV."""
    write_tables(document.tables, folder)
    if document.results:
        write_csv(document.results, folder)


def _section(name: str, summary: Summary, palette: Palette, charts: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "anchor": anchor(name),
        "title": summary.title,
        "sentences": summary.sentences,
        "tables": [table_view(table) for table in summary.tables],
        "figures": [figure_view(one, palette, charts) for one in summary.figures if not is_worst_case(one)],
        "pictures": [figure_view(one, palette, charts) for one in summary.figures if is_worst_case(one)],
    }


def _pictures(sections: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the worst cases of all protocols, and the values that they can be filtered by."""
    figures = [figure for section in sections for figure in section["pictures"]]
    strips = [strip for figure in figures for strip in figure["strips"]]
    names = {
        kind: list(dict.fromkeys(strip[kind] for strip in strips if strip[kind])) for kind in ("detector", "stress")
    }
    return {"figures": figures, "detectors": names["detector"], "stresses": names["stress"]}


def _links(document: Document) -> list[tuple[str, str]]:
    """Return the sections for the navigation."""
    first = [("verdicts", "Verdicts"), ("overview", "All detectors")] if document.overview.conditions else []
    figures = [figure for summary in document.summaries.values() for figure in summary.figures]
    pictures = [("pictures", "Pictures")] if any(map(is_worst_case, figures)) else []
    return [
        *first,
        *((anchor(name), one.short_title) for name, one in document.sections.items()),
        *pictures,
        ("provenance", "Provenance"),
    ]
