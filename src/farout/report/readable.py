"""Tables for people: rounded numbers, intervals beside values, and marks of the best values."""

from __future__ import annotations

from typing import Any

from farout.report.content import COUNT, EXTRA, INTERVAL, LABEL, Column, Table, cells
from farout.report.content.numbers import number, with_interval

MARKED = (
    "Bold: the best detector of its network and outlier set; underlined: not significantly worse than the best "
    "(DeLong's paired test at the 0.05 level)."
)
"""Legend of the marks of the best values."""
DAGGER = "†"
LEARNED = f"{DAGGER}: learned from outliers too (extra data, see the table of fit sizes)."
"""Legend of the mark of detectors."""


def readable(table: Table) -> dict[Column, list[str]]:
    """Return the columns as printed: three digits, intervals beside values, without columns that do not vary."""
    return {
        column: [
            _format_cell(cell, column) + (f" {DAGGER}" if mark == EXTRA else "")
            for cell, mark in zip(cells(table.lines, column), marks_of(table, column), strict=True)
        ]
        for column in table.columns
        if not (column.varying and _same(table, column))
    }


def legend(table: Table) -> str:
    """Return the legend of a table's marks; empty without marks."""
    learned = [EXTRA in marks for marks in table.marks.values()]
    return " ".join([*([MARKED] if not all(learned) else []), *([LEARNED] if any(learned) else [])])


def marks_of(table: Table, column: Column) -> list[str]:
    """Return the mark of every line in a column; an empty string without a mark."""
    return list(table.marks.get(column, [""] * len(table.lines)))


def _same(table: Table, column: Column) -> bool:
    """Return True if every line has the same value."""
    return len(set(cells(table.lines, column))) == 1


def _format_cell(cell: Any, column: Column) -> str:
    if column.kind is INTERVAL:
        return with_interval(*cell)
    if column.kind in (LABEL, COUNT):
        return "–" if cell != cell else str(cell)
    return number(cell, powers=column.powers)
