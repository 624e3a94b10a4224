"""Per-image scores of a run as one Parquet file per protocol: a line per image and detector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from farout.study.results import Results, Row
from farout.study.store import SCORES

SCORE = "score"
TEXT = pa.dictionary(pa.int32(), pa.string())
"""Type of tags, of which few differ."""
GROUP = 500_000
"""Smallest number of lines that are written together; Parquet files of many small groups are slow to read."""


def scored_rows(results: Results, protocol: str) -> list[Row]:
    """Return the stored rows of a protocol that hold a detector's score of every image."""
    rows = (row for row in results.done(protocol) if row.tags.get("detector"))
    return [row for row in rows if SCORES in results.store.facts(row.cell)["files"] and SCORE in _types(results, row)]


def write_scores(results: Results, rows: Sequence[Row], path: Path) -> int:
    """Write the per-image columns of these rows, each with the row's tags as text; return the number of lines.

    A tag that has the name of a per-image column gets the suffix _tag. A column that some rows lack is empty there.
    """
    types = _common_types([_types(results, row) for row in rows])
    tags = {tag: f"{tag}_tag" if tag in types else tag for row in rows for tag in row.tags}
    schema, lines = pa.schema([*((name, TEXT) for name in tags.values()), *types.items()]), 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for tables in _groups(_table(results, row, tags, types) for row in rows):
            writer.write_table(pa.concat_tables(tables).cast(schema))
            lines += sum(map(len, tables))
    return lines


def _groups(tables: Iterator[pa.Table]) -> Iterator[list[pa.Table]]:
    """Yield the tables in groups of at least `GROUP` lines; the last may be smaller."""
    group: list[pa.Table] = []
    for table in tables:
        group.append(table)
        if sum(map(len, group)) >= GROUP:
            yield group
            group = []
    if group:
        yield group


def _types(results: Results, row: Row) -> dict[str, pa.DataType]:
    """Return the types of the per-image columns of a row."""
    schema = results.store.parquet(row.cell).schema_arrow
    return dict(zip(schema.names, schema.types, strict=True))


def _common_types(several: Sequence[Mapping[str, pa.DataType]]) -> dict[str, pa.DataType]:
    """Return for every column a type that fits all rows: the only one, a float for several numbers, else text."""
    found: dict[str, set[pa.DataType]] = {}
    for types in several:
        for name, one in types.items():
            found.setdefault(name, set()).add(one)
    return {name: next(iter(types)) if len(types) == 1 else _wider(types) for name, types in found.items()}


def _wider(types: set[pa.DataType]) -> pa.DataType:
    return pa.float64() if all(pa.types.is_integer(one) or pa.types.is_floating(one) for one in types) else pa.string()


def _table(results: Results, row: Row, tags: Mapping[str, str], types: Mapping[str, pa.DataType]) -> pa.Table:
    """Return the columns of one row; those that it lacks are null."""
    stored = results.store.parquet(row.cell).read()
    columns = {name: pa.array([row.tags.get(tag)], pa.string()).take([0] * len(stored)) for tag, name in tags.items()}
    for name, one in types.items():
        known = name in stored.column_names
        columns[name] = stored.column(name).cast(one) if known else pa.nulls(len(stored), one)
    return pa.table({name: _encoded(column) if name in tags.values() else column for name, column in columns.items()})


def _encoded(column: pa.Array) -> pa.Array:
    return column.dictionary_encode().cast(TEXT)
