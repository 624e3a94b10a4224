"""Detectors that learned from outliers too are marked wherever detectors are compared."""

from __future__ import annotations

import re
from html import unescape

from farout.report.content import Document, Measured, Stress, Subject, Summary
from farout.report.html import render
from farout.report.latex import latex
from farout.report.notebook import notebook


def document() -> Document:
    figures = {"plain": 0.8, "exposed": 0.9}
    found = [
        Measured(Subject("net", name), "set", one, one - 0.01, one + 0.01, 100, 50) for name, one in figures.items()
    ]
    stress = Stress("clean", "of unchanged outliers", found, clean=True)
    return Document("run", "quick", {"clean": Summary("Clean", stresses=[stress])}, total=2, extra_data={"exposed"})


def test_the_page_marks_them_in_verdicts_and_in_the_table_of_all_detectors() -> None:
    page = render(document())
    rows = re.findall(r'<th scope="row">(.*?)</th>', page)
    assert {re.search(r"<bdi>(.*)</bdi>", row)[1]: "†" in row for row in rows} == {"exposed": True, "plain": False}  # type: ignore[index]
    levels = {
        unescape(label): "learned from outliers too" in level
        for label, level in re.findall(r"<bdi>(\w+)</bdi></h3>\s*<span class=\"level \w+\">(.*?)</span>", page)
    }
    assert levels == {"exposed": True, "plain": False}
    assert "†: learned from outliers too (extra data" in page


def test_the_table_for_papers_and_the_notebook_mark_them_too() -> None:
    table = document().overview.table
    assert [line[next(iter(table.marks))] for line in table.lines] == ["exposed", "plain"]
    assert list(next(iter(table.marks.values()))) == ["extra", ""]
    assert r"exposed \textdagger{}" in latex(table)
    marked = r"<abbr[^>]*>†</abbr> <bdi>(\w+)</bdi>"
    assert re.findall(marked, notebook(document())) == ["exposed"]
