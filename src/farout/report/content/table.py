"""Tables as data: typed columns, lines of cells, and the plain frame that users and files get."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import count
from math import nan
from typing import Any, Literal

import pandas as pd

BEST, TIED = "best", "tied"
ENDS = ("", "_low", "_high")
"""Endings of the three plain columns of an interval."""


class Kind(Enum):
    """Type of a column's cells."""

    LABEL = "label"
    COUNT = "count"
    VALUE = "value"
    INTERVAL = "interval"
    """A value with the bounds of its interval: (value, low, high)."""


LABEL, COUNT, VALUE, INTERVAL = Kind


@dataclass(frozen=True)
class Column:
    """Column of a table: its name, the type of its cells, and how people read them."""

    name: str
    kind: Kind
    of: str = ""
    """What the name is a label of ("outlier set"); empty where the table itself chose the name."""
    better: Literal["higher", "lower", ""] = ""
    """The direction that is good for a detector; empty where neither is."""
    powers: bool = False
    """Are values below .001 printed as powers of ten, as p-values are?"""
    varying: bool = False
    """Is the column printed only where its cells differ, as the seed is?"""


Line = Mapping[Column, Any]
"""The cells of a line by column; a column that a line lacks has no value there."""
Lines = Sequence[Line]


@dataclass(frozen=True)
class Table:
    """A table for people and for files."""

    name: str
    title: str
    caption: str
    lines: Lines
    marks: Mapping[Column, Sequence[str]] = field(default_factory=dict)
    """Of some columns, for every line BEST, TIED (with the best, by a paired test) or an empty string."""

    @cached_property
    def columns(self) -> dict[Column, str]:
        """The columns in order, each with a name that no other has."""
        return named(columns_of(self.lines))

    @property
    def frame(self) -> pd.DataFrame:
        """The table with all digits as a plain data frame; an interval is three columns, `x`, `x_low` and `x_high`."""
        return frame_of(self.lines)


def columns_of(lines: Lines) -> list[Column]:
    """All columns of these lines, in the order in which they appear."""
    return list(dict.fromkeys(column for line in lines for column in line))


def cells(lines: Lines, column: Column) -> list[Any]:
    """The cells of one column, NaN where a line has none; of an interval a tuple in any case."""
    missing = (nan, nan, nan) if column.kind is INTERVAL else nan
    return [line.get(column, missing) for line in lines]


def frame_of(lines: Lines) -> pd.DataFrame:
    """Return the lines as a data frame of plain columns, an interval as three."""
    plain: dict[str, list[Any]] = {}
    for column, name in named(columns_of(lines)).items():
        found = cells(lines, column)
        parts = zip(*found, strict=True) if column.kind is INTERVAL else [found]
        plain |= {key: list(part) for key, part in zip(_plain(column, name), parts, strict=True)}
    return pd.DataFrame(plain)


def named(columns: Iterable[Column]) -> dict[Column, str]:
    """Give every column a name of its own.

    Names that the table chose come first; a user's label that is taken, also by the bounds of an interval, is followed
    by what it is a label of: "mean (outlier set)".
    """
    columns = list(columns)
    names, taken = {}, set[str]()
    for column in sorted(columns, key=lambda one: bool(one.of)):
        free = (name for name in _names(column) if taken.isdisjoint(_plain(column, name)))
        names[column] = next(free)
        taken.update(_plain(column, names[column]))
    return {column: names[column] for column in columns}


def _names(column: Column) -> Iterator[str]:
    """Names that a column may have, the best first."""
    yield column.name
    told_apart = f"{column.name} ({column.of})" if column.of else column.name
    yield told_apart
    yield from (f"{told_apart} {number}" for number in count(2))


def _plain(column: Column, name: str) -> list[str]:
    """The names of the plain columns."""
    return [f"{name}{end}" for end in ENDS] if column.kind is INTERVAL else [name]
