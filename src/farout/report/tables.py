"""Tables as text, as CSV and as LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from farout.files import make_folder, write_text
from farout.report.content import EXTRA, Document, Table
from farout.report.latex import latex
from farout.report.readable import LEARNED, readable

FORMULA = ("=", "+", "-", "−", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""First characters of text that a spreadsheet runs as a formula, some only after it has removed the white space."""
SHOWN = 5
"""Number of failure reasons in the text."""


def text(document: Document) -> str:
    """Return the first table of every protocol as text, with fit sizes, notes and what is missing."""
    lines = [f"{document.name} (budget {document.budget})", *document.fit_sizes]
    lines += [f"left out: {cut}" for cut in document.cuts]
    lines += [f"note: {note}" for note in document.notes]
    for summary in document.summaries.values():
        for table in summary.tables[:1]:
            columns = {table.columns[column]: values for column, values in readable(table).items()}
            lines += ["", table.title, pd.DataFrame(columns).to_string(index=False)]
            lines += [LEARNED] if any(EXTRA in marks for marks in table.marks.values()) else []
    return "\n".join([*lines, *_missing(document)])


def _missing(document: Document) -> list[str]:
    """Return lines with the number of missing results and the first reasons of failures."""
    if not document.missing:
        return []
    reasons = list(dict.fromkeys(failure.reason for failure in document.failures))
    more = [f"  and {len(reasons) - SHOWN} other reasons"] if len(reasons) > SHOWN else []
    count = f"{document.missing} of {document.total} results are missing, {document.failed} of them failed"
    return ["", count + (":" if reasons else ""), *(f"  {reason}" for reason in reasons[:SHOWN]), *more]


def write_tables(tables: Iterable[Table], folder: Path) -> list[Path]:
    """Write every table as CSV (all digits) and LaTeX (as printed); return the paths."""
    make_folder(folder, folder.parent)
    writers: dict[str, Callable[[Table], str]] = {
        "csv": lambda table: _escape_formulas(table.frame).to_csv(index=False),
        "tex": lambda table: latex(table),
    }
    paths = []
    for table in tables:
        for suffix, write in writers.items():
            paths.append(folder / f"{table.name}.{suffix}")
            write_text(paths[-1], write(table), folder.parent)
    return paths


def write_csv(table: Table, folder: Path) -> Path:
    """Write a long table as CSV only; return the path."""
    make_folder(folder, folder.parent)
    write_text(path := folder / f"{table.name}.csv", _escape_formulas(table.frame).to_csv(index=False), folder.parent)
    return path


def _escape_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with an apostrophe before text that spreadsheets would run as a formula."""
    return frame.rename(columns=as_text).map(as_text)


def as_text(value: Any) -> Any:
    """Return text that a spreadsheet would run as a formula with an apostrophe before it; other values unchanged."""
    if not isinstance(value, str) or not value.startswith(FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
