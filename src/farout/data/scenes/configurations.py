"""Configurations: a table of attribute values, one row per image, stored as Parquet; images are rendered from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import ArrayLike, NDArray

from farout import shifts
from farout.data.lazy import Lazy
from farout.data.scenes.columns import HIGHEST, LOWEST, outside
from farout.data.scenes.packed import Packed, UnknownWord, pack, pack_words
from farout.data.scenes.scene import KINDS, MOST_POINTS, Scenes
from farout.data.scenes.worlds import WORLDS, World
from farout.identity import digest_parts
from farout.registry import unknown
from farout.shifts.corruption import SEVERITIES
from farout.tensors import chunks

NUMBERS = (
    "hue", "size", "rotation_x", "rotation_y", "rotation_z", "x", "y",
    "intensity", "ambient", "specular", "light_angle", "aspect", "aspect_2", "smoothness",
)  # fmt: skip
"""Columns of float32; lengths are fractions of the side, angles are degrees."""
INTEGERS = ("points", "severity", "noise")
"""Columns of int64; severity is 0 without a corruption, `noise` numbers the corruption's randomness."""
RADII = tuple(f"radius_{point}" for point in range(MOST_POINTS))
WORDS = ("class", "corruption")
SCENE = ("class", *NUMBERS[:-1], "points", "smoothness", *RADII)
"""Columns that describe the scene, in the order of `columns.NAMES`."""

ROWS = 1 << 14
"""Rows that are hashed at a time."""

Columns = Mapping[str, NDArray[Any]]


class Configurations:
    """Table with one row per image: class, hue, size, rotation, position, light, shape, corruption and severity.

    Values that cannot be rendered raise an error at once; errors count rows from 0.
    """

    def __init__(self, columns: Columns) -> None:
        self._packed = {
            **{name: _words(columns, name) for name in WORDS},
            **{name: pack(_as_type(_given(columns, name), name, np.float32)) for name in (*NUMBERS, *RADII)},
            **{name: pack(_integers(columns, name)) for name in INTEGERS},
        }
        self._check_lengths()
        self._check_severity()
        self._check_bounds()

    def __len__(self) -> int:
        return len(self._packed["class"])

    def __getitem__(self, places: ArrayLike) -> Configurations:
        selected, part = np.asarray(places), object.__new__(Configurations)  # rows were validated before
        part._packed = {name: column.select(selected) for name, column in self._packed.items()}
        part._check_lengths()
        return part

    @property
    def columns(self) -> Columns:
        """Columns by name; reading one makes its array."""
        return Lazy(self._packed, self.column)

    def column(self, name: str, rows: slice | NDArray[np.int64] = slice(None)) -> NDArray[Any]:
        """Return the values of some rows of a column."""
        return self._packed[name][rows]

    @property
    def kinds(self) -> NDArray[np.uint8]:
        """Place of every row's class in `KINDS`."""
        return self._packed["class"].stored

    @property
    def corruptions(self) -> list[tuple[str, int]]:
        """The different corruptions with their severities, sorted; "" and 0 for rows without one."""
        words, severity = self._packed["corruption"], self.column("severity")
        pairs = np.unique(words.stored * np.int64(max(SEVERITIES) + 1) + severity)
        codes, severities = np.divmod(pairs, max(SEVERITIES) + 1)
        assert words.known is not None
        return sorted(zip(words.known[codes].tolist(), severities.tolist(), strict=True))

    @cached_property
    def scenes(self) -> Scenes:
        """Scene parameters of all rows."""
        return self.scenes_at(slice(None))

    def scenes_at(self, rows: slice | NDArray[np.int64]) -> Scenes:
        """Return the scene parameters of some rows, without making those of a whole long table."""
        numbers = {name: torch.from_numpy(self.column(name, rows)) for name in (*NUMBERS, *RADII, "points")}

        def several(*names: str) -> torch.Tensor:
            return torch.stack([numbers[name] for name in names], 1)

        return Scenes(
            kind=torch.from_numpy(self._packed["class"].stored[rows].astype(np.int64)),  # places in KINDS
            hue=numbers["hue"],
            size=numbers["size"],
            rotation=several("rotation_x", "rotation_y", "rotation_z"),
            position=several("x", "y"),
            light=several("intensity", "ambient", "specular", "light_angle"),
            aspect=several("aspect", "aspect_2"),
            points=numbers["points"],
            smoothness=numbers["smoothness"],
            radii=several(*RADII),
        )

    @cached_property
    def digest(self) -> str:
        """Hash of all values; the same on every machine."""
        return digest_parts((name, len(self), self._parts(name)) for name in self._packed)

    def _parts(self, name: str) -> Iterator[NDArray[Any]]:
        """Yield a column in parts, words in a type that does not depend on the longest."""
        for rows in chunks(len(self), ROWS):
            part = self.column(name, rows)
            yield part.astype("U16") if name in WORDS else part

    @property
    def world(self) -> World:
        """SHAPES or CHARS: the family that all classes belong to."""
        found = {KINDS[kind] for kind in np.unique(self.kinds)}
        for world in WORLDS.values():
            if found <= {*world.inliers, *world.outliers}:
                return world
        raise ValueError(f"expected classes of one family, shapes or chars; got {', '.join(sorted(found))}")

    def write(self, path: Path) -> Path:
        """Store as Parquet; equal tables give equal bytes."""
        stored = pa.table({name: pa.array(values) for name, values in self.columns.items()})
        pq.write_table(stored, path, compression="zstd")
        return path

    @classmethod
    def read(cls, path: Path) -> Configurations:
        """Read a table that `write` stored, or any Parquet table with the same columns; one column at a time."""
        try:
            with pq.ParquetFile(path) as file:
                names = file.schema_arrow.names
                return cls(Lazy(names, lambda name: _values(file.read([name], use_threads=False)[name])))
        except (pa.ArrowException, ValueError) as error:
            raise ValueError(f"{path} is no table of configurations: {error}") from error
        finally:
            pa.default_memory_pool().release_unused()

    def _check_lengths(self) -> None:
        lengths = {len(column) for column in self._packed.values()}
        if len(lengths) > 1 or not min(lengths):
            raise ValueError(f"columns must have one length of at least 1, got {sorted(lengths)}")

    def _check_bounds(self) -> None:
        """Raise for a number that cannot be rendered; of packed columns, only the different values are checked."""
        for number, name in enumerate(SCENE[1:], 1):  # words were validated
            column = self._packed[name]
            values = column.stored if column.known is None else column.known
            if not ((values >= LOWEST[number]) & (values <= HIGHEST[number])).all():  # false for NaN
                rows = column[:]
                row = int(np.argmin((rows >= LOWEST[number]) & (rows <= HIGHEST[number])))
                raise outside(f"row {row}", name, rows[row], number)

    def _check_severity(self) -> None:
        severity, corrupted = self.column("severity"), self._packed["corruption"].stored != 0
        wrong = np.flatnonzero(np.where(corrupted, ~np.isin(severity, SEVERITIES), severity != 0))
        if wrong.size:
            row = wrong[0]
            allowed = f"lie in {SEVERITIES[0]}..{SEVERITIES[-1]} with" if corrupted[row] else "be 0 without"
            raise ValueError(f"row {row}: severity is {severity[row]}; it must {allowed} a corruption")


def _values(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return the values of a stored column; words without an object of Python for every row."""
    if not pa.types.is_string(column.type) or column.null_count or not len(column):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    words = column.combine_chunks().dictionary_encode()
    values: NDArray[Any] = np.array(words.dictionary.to_pylist(), np.str_)[words.indices.to_numpy()]
    return values


def _words(columns: Columns, name: str) -> Packed:
    """Return a column of words; raise for an unknown one."""
    known = KINDS if name == "class" else ("", *shifts.names())
    try:
        return pack_words(_as_type(_given(columns, name), name, np.str_), known)
    except UnknownWord as error:
        raise unknown(f"{name} in row {error.row}:", error.word, known) from error


def _integers(columns: Columns, name: str) -> NDArray[Any]:
    values = _given(columns, name)
    with np.errstate(invalid="ignore"):  # NaN is detected below
        integers = _as_type(values, name, np.int64)
    wrong = np.flatnonzero(integers != values)
    if wrong.size:
        raise ValueError(f"row {wrong[0]}: {name} is {values[wrong[0]]}; it must be an integer")
    return integers


def _given(columns: Columns, name: str) -> NDArray[Any]:
    if name not in columns:
        raise ValueError(f"the column {name!r} is missing; got {', '.join(columns) or 'none'}")
    return np.asarray(columns[name])


def _as_type(values: NDArray[Any], name: str, kind: type[np.generic]) -> NDArray[Any]:
    try:
        return np.ascontiguousarray(values.astype(kind))
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"the column {name!r} does not hold {kind.__name__}: {error}") from error
