"""Tables as people read them: rounded numbers, intervals beside values, and which values are the best."""

from __future__ import annotations

from typing import Any

from farout.report.content import COUNT, INTERVAL, LABEL, Column, Table, cells

MARKED = (
    "Bold: the best of its network and outlier set; underlined: cannot be told apart from it (DeLong's paired test)."
)
"""Legend of a table's marks."""


def readable(table: Table) -> dict[Column, list[str]]:
    """Return the columns as printed: three digits, an interval beside its value, columns that say nothing left out."""
    return {
        column: [_printed(cell, column) for cell in cells(table.lines, column)]
        for column in table.columns
        if not (column.varying and _same(table, column))
    }


def marks_of(table: Table, column: Column) -> list[str]:
    """Return the marks of a column, line by line; empty strings where it has none."""
    return list(table.marks.get(column, [""] * len(table.lines)))


def _same(table: Table, column: Column) -> bool:
    """Does every line have the same value?"""
    return len(set(cells(table.lines, column))) == 1


def _printed(cell: Any, column: Column) -> str:
    if column.kind is INTERVAL:
        value, low, high = cell
        return _number(value) + ("" if low != low else f" [{_number(low)}, {_number(high)}]")
    if column.kind in (LABEL, COUNT):
        return "–" if cell != cell else str(cell)
    return _number(cell, powers=column.powers)


def _number(value: float, powers: bool = False) -> str:
    """Three digits; with `powers` the order of magnitude of numbers below .001."""
    if value != value:
        return "–"
    return f"{value:.0e}" if powers and 0 < abs(value) < 1e-3 else f"{value:.3f}"
