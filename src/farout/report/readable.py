"""Tables as people read them: rounded numbers, intervals beside values, and which values are the best."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from farout.protocols.summary import Table

MARKED = (
    "Bold: the best of its network and outlier set; underlined: cannot be told apart from it (DeLong's paired test)."
)
"""Legend of a table's marks."""


def readable(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns as printed: three digits, an interval beside its value, columns that say nothing left out."""
    columns: dict[str, list[str]] = {}
    for name in map(str, frame.columns):
        if name.endswith(("_low", "_high")) and name.rpartition("_")[0] in frame:
            continue
        if name in ("network", "seed") and frame[name].nunique() == 1:
            continue
        values = [_number(value, small=name.startswith("p_")) for value in frame[name]]
        if f"{name}_low" in frame:
            bounds = zip(frame[f"{name}_low"], frame[f"{name}_high"], strict=True)
            intervals = ["" if a != a else f" [{_number(a)}, {_number(b)}]" for a, b in bounds]
            values = [value + interval for value, interval in zip(values, intervals, strict=True)]
        columns[name] = values
    return pd.DataFrame(columns)


def marks_of(table: Table, columns: Iterable[str]) -> list[list[str]]:
    """The mark of every cell of these columns, line by line; nothing where the table has none."""
    marks = {} if table.marks is None else {str(name): table.marks[name].tolist() for name in table.marks}
    known = [marks.get(name, [""] * len(table.frame)) for name in columns]
    return [[mark if isinstance(mark, str) else "" for mark in line] for line in zip(*known, strict=True)]


def _number(value: object, small: bool = False) -> str:
    """Three digits; of `small` numbers, as p-values are, the order of those below .001."""
    if not isinstance(value, float):
        return str(value)
    if value != value:
        return "–"
    return f"{value:.0e}" if small and 0 < abs(value) < 1e-3 else f"{value:.3f}"
