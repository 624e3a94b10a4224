"""Image sets over Parquet tables with a column of encoded images, as Hugging Face writes them."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from farout.data.arrays import MOST_CLASSES
from farout.data.items import IMAGE_COLUMNS, LABEL_COLUMNS
from farout.data.kept import Arrays, kept
from farout.data.shard_entries import ShardEntries
from farout.data.stamps import Files
from farout.data.tars import join_labels

CACHE = 1 << 28
"""Bytes of row groups that are kept in memory."""
LARGEST_GROUP = 1 << 30
"""Maximum number of bytes of a row group's images: all of them are read for one."""
_VERSION = 1
T = TypeVar("T")


class Columns(NamedTuple):
    """Columns of a table: the image, the label (None without one), and the names of the classes, if known."""

    image: str
    encoded: str
    """Path of the leaf that holds the bytes."""
    label: str | None
    classes: tuple[str, ...]


def image_columns(path: Path) -> Columns | None:
    """Return the columns of a table of images; None for another table, such as one of configurations."""
    schema = _reading(path, lambda: pq.read_schema(path))
    image = next((name for name in IMAGE_COLUMNS if name in schema.names), None)
    if image is None:
        return None
    kind = schema.field(image).type
    inner = kind.field("bytes").type if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0 else kind
    if not (pa.types.is_binary(inner) or pa.types.is_large_binary(inner)):
        raise ValueError(
            f"{path}: the column {image!r} holds {kind}; expected encoded images (PNG, JPEG, …): binary, or "
            "struct<bytes: binary, path: string>"
        )
    label = next((name for name in LABEL_COLUMNS if name in schema.names), None)
    if label is not None and not pa.types.is_integer(schema.field(label).type):
        raise ValueError(
            f"{path}: the column {label!r} holds {schema.field(label).type}; expected indices of classes, whole numbers"
        )
    return Columns(image, image if inner is kind else f"{image}.bytes", label, _class_names(schema, label))


class ParquetEntries(ShardEntries):
    """Images in tables; a row group is read at a time, and the last ones are kept in memory."""

    def __init__(self, paths: Sequence[Path]) -> None:
        columns = [_columns(path) for path in paths]
        for path, other in zip(paths, columns, strict=True):
            if other.classes != columns[0].classes:
                raise ValueError(f"{path} names other classes than {paths[0]}; expected shards of one set")
        indexes = [_read_index(path, own) for path, own in zip(paths, columns, strict=True)]
        self.ends = [index["ends"] for index in indexes]
        counts = [int(ends[-1]) if len(ends) else 0 for ends in self.ends]
        if not sum(counts):
            raise ValueError(f"{paths[0]} has no rows; expected at least one image")
        super().__init__(paths, counts, [str(row) for row in range(sum(counts))])
        filled = [place for place, count in enumerate(counts) if count]  # a shard may be empty
        self.labels = join_labels([paths[place] for place in filled], [indexes[place]["labels"] for place in filled])
        self.classes = columns[0].classes
        self.groups = RowGroups(paths, [own.encoded for own in columns])

    def read_shard(self, owner: int, rows: NDArray[np.int64]) -> list[bytes]:
        ends, found = self.ends[owner], [b""] * len(rows)
        groups = np.searchsorted(ends, rows, side="right")
        for group in np.unique(groups).tolist():
            first = int(ends[group - 1]) if group else 0
            column = self.groups(owner, group)
            for place in np.flatnonzero(groups == group).tolist():
                found[place] = column[int(rows[place]) - first].as_py() or b""
        return found


class RowGroups:
    """Encoded images of row groups, of which the last ones that were used are kept."""

    def __init__(self, paths: Sequence[Path], leaves: Sequence[str]) -> None:
        self.paths, self.leaves = tuple(paths), tuple(leaves)
        self._kept: OrderedDict[tuple[int, int], Any] = OrderedDict()

    def __call__(self, owner: int, group: int) -> Any:
        """Return the column of a row group."""
        if (owner, group) not in self._kept:
            column = self._read(owner, group)
            while self._kept and column.nbytes + sum(other.nbytes for other in self._kept.values()) > CACHE:
                self._kept.popitem(last=False)
            self._kept[owner, group] = column
        self._kept.move_to_end((owner, group))
        return self._kept[owner, group]

    def _read(self, owner: int, group: int) -> Any:
        path, leaf = self.paths[owner], self.leaves[owner]

        def read() -> Any:
            with pq.ParquetFile(path, pre_buffer=False) as file:
                column = file.read_row_group(group, [leaf], use_threads=False).column(0)
            column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
            return column.field("bytes") if pa.types.is_struct(column.type) else column

        return _reading(path, read)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, without what was read."""
        return {**self.__dict__, "_kept": OrderedDict()}


def _columns(path: Path) -> Columns:
    if (columns := image_columns(path)) is None:
        names = _reading(path, lambda: pq.read_schema(path)).names
        raise ValueError(f"{path} has the columns {', '.join(names)}; expected 'image' (and 'label')")
    return columns


def _read_index(path: Path, columns: Columns) -> Arrays:
    """Return `ends`, the number of rows up to the end of each row group, and `labels`; kept by file stamp."""
    return kept("indexes", ["parquet", _VERSION], Files.at(path), lambda: _reading(path, lambda: _index(path, columns)))


def _index(path: Path, columns: Columns) -> Arrays:
    with pq.ParquetFile(path) as file:
        about = file.metadata
        groups = [about.row_group(number) for number in range(about.num_row_groups)]
        for number, group in enumerate(groups):
            parts = [group.column(place) for place in range(group.num_columns)]
            size = sum(part.total_uncompressed_size for part in parts if part.path_in_schema == columns.encoded)
            if size > LARGEST_GROUP:
                raise ValueError(
                    f"{path}: row group {number} has {size:,} bytes of images, at most {LARGEST_GROUP:,} are allowed, "
                    "since all of a group is read for one image; write it again with row_group_size=1000"
                )
        labels = np.empty(0, np.int64) if columns.label is None else _labels(file, columns, path)
    return {"ends": np.cumsum([group.num_rows for group in groups], dtype=np.int64), "labels": labels}


def _labels(file: Any, columns: Columns, path: Path) -> NDArray[np.int64]:
    column = file.read([columns.label], use_threads=False).column(0)
    if column.null_count:
        raise ValueError(f"{path}: {column.null_count:,} of {len(column):,} rows have no {columns.label!r} (null)")
    labels: NDArray[Any] = column.to_numpy()
    if len(labels) and (labels == -1).all():  # Hugging Face's mark of hidden labels
        return np.empty(0, np.int64)
    most = len(columns.classes) or MOST_CLASSES
    if len(labels) and (labels.min() < 0 or labels.max() >= most):
        raise ValueError(
            f"{path}: the column {columns.label!r} runs from {labels.min()} to {labels.max()}; expected indices of "
            f"classes, 0 to {most - 1:,}"
        )
    return labels.astype(np.int64)


def _class_names(schema: Any, label: str | None) -> tuple[str, ...]:
    """Return the names of a ClassLabel in the metadata that Hugging Face writes; an empty tuple without them."""
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        about = json.loads((schema.metadata or {})[b"huggingface"])
        names = about["info"]["features"][label]["names"]
        return tuple(map(str, names)) if isinstance(names, list) else ()
    return ()


def _reading(path: Path, read: Callable[[], T]) -> T:
    """Return what `read` returns; name the file if it is damaged."""
    try:
        return read()
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        raise ValueError(f"{path} is damaged or no Parquet file ({error}); write it again") from error
