"""Tables as data: typed columns, lines of cells, and conversion to a plain data frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import count
from math import nan
from typing import Any, Literal

import pandas as pd

BEST, TIED, EXTRA = "best", "tied", "extra"
ENDS = ("", "_low", "_high")
"""Suffixes of the three plain columns of an interval."""


class Kind(Enum):
    """Type of a column's cells."""

    LABEL = "label"
    COUNT = "count"
    VALUE = "value"
    INTERVAL = "interval"
    """Value with the bounds of its interval: (value, low, high)."""


LABEL, COUNT, VALUE, INTERVAL = Kind


@dataclass(frozen=True)
class Column:
    """Column of a table: its name, the type of its cells, and how they are printed."""

    name: str
    kind: Kind
    of: str = ""
    """Kind of the user's label that is the name ("outlier set"); empty if the table itself defines the name."""
    better: Literal["higher", "lower", ""] = ""
    """Direction that is good for a detector; empty if neither is."""
    powers: bool = False
    """True to print values below .001 as powers of ten, as for p-values."""
    varying: bool = False
    """True to print the column only if its cells differ, as for the seed."""

    def __hash__(self) -> int:
        return hash(self.name)  # of all fields it would take a noticeable part of a report's time


Line = Mapping[Column, Any]
"""Cells of a line by column; a missing column has no value."""
Lines = Sequence[Line]


@dataclass(frozen=True)
class Table:
    """Table with a title and a caption."""

    name: str
    title: str
    caption: str
    lines: Lines
    marks: Mapping[Column, Sequence[str]] = field(default_factory=dict)
    """Marks of some columns, for every line BEST, TIED (with the best, by a paired test), EXTRA (of a detector that
    learned from extra data) or an empty string."""

    @cached_property
    def columns(self) -> dict[Column, str]:
        """Columns in order, each with its unique name."""
        return unique_names(columns_of(self.lines))

    @property
    def frame(self) -> pd.DataFrame:
        """Plain data frame with all digits; an interval is three columns, `x`, `x_low` and `x_high`."""
        return frame_of(self.lines)


def columns_of(lines: Lines) -> list[Column]:
    """Return all columns of these lines, in the order in which they appear."""
    return list(dict.fromkeys(column for line in lines for column in line))


def cells(lines: Lines, column: Column) -> list[Any]:
    """Return the cells of one column, NaN if a line has none; of an interval always a tuple."""
    missing = (nan, nan, nan) if column.kind is INTERVAL else nan
    return [line.get(column, missing) for line in lines]


def frame_of(lines: Lines) -> pd.DataFrame:
    """Return the lines as a data frame of plain columns, an interval as three."""
    plain: dict[str, list[Any]] = {}
    for column, name in unique_names(columns_of(lines)).items():
        found = cells(lines, column)
        parts = zip(*found, strict=True) if column.kind is INTERVAL else [found]
        plain |= {key: list(part) for key, part in zip(_plain(column, name), parts, strict=True)}
    return pd.DataFrame(plain)


def unique_names(columns: Iterable[Column]) -> dict[Column, str]:
    """Return a unique name for every column.

    Names that the table defines come first; a user's label that is taken, also by the bounds of an interval, gets its
    kind appended: "mean (outlier set)".
    """
    columns = list(columns)
    names, taken = {}, set[str]()
    for column in sorted(columns, key=lambda one: bool(one.of)):
        free = (name for name in _names(column) if taken.isdisjoint(_plain(column, name)))
        names[column] = next(free)
        taken.update(_plain(column, names[column]))
    return {column: names[column] for column in columns}


def _names(column: Column) -> Iterator[str]:
    """Yield names that a column may have, the best first."""
    yield column.name
    longer = f"{column.name} ({column.of})" if column.of else column.name
    yield longer
    yield from (f"{longer} {number}" for number in count(2))


def _plain(column: Column, name: str) -> list[str]:
    """Return the names of the plain columns."""
    return [f"{name}{end}" for end in ENDS] if column.kind is INTERVAL else [name]
