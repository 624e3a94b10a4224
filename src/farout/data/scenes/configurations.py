"""Configurations: a table of attribute values, one row per image, stored as Parquet; images are rendered from it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import ArrayLike, NDArray

from farout import shifts
from farout.data.scenes.columns import table
from farout.data.scenes.scene import KINDS, MOST_POINTS, Scenes
from farout.data.scenes.worlds import WORLDS, World
from farout.identity import digest_arrays
from farout.registry import unknown
from farout.shifts.corruption import SEVERITIES

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
"""Columns that describe the scene, in the order of `columns.table`."""

Columns = Mapping[str, NDArray[Any]]


class Configurations:
    """Table with one row per image: class, hue, size, rotation, position, light, shape, corruption and severity.

    Values that cannot be rendered raise an error at once; errors count rows from 0.
    """

    def __init__(self, columns: Columns) -> None:
        self.columns = {
            **{name: _column(columns, name, np.str_) for name in WORDS},
            **{name: _column(columns, name, np.float32) for name in (*NUMBERS, *RADII)},
            **{name: _integers(columns, name) for name in INTEGERS},
        }
        _check_lengths(self.columns)
        _check_words(self.columns)
        _check_severity(self.columns)
        table(self.scenes_at(slice(None)), "row", SCENE)

    def __len__(self) -> int:
        return len(self.columns["class"])

    def __getitem__(self, places: ArrayLike) -> Configurations:
        selected, part = np.asarray(places), object.__new__(Configurations)  # rows were validated before
        part.columns = {name: np.ascontiguousarray(values[selected]) for name, values in self.columns.items()}
        _check_lengths(part.columns)
        return part

    @cached_property
    def scenes(self) -> Scenes:
        """Scene parameters of all rows."""
        return self.scenes_at(slice(None))

    def scenes_at(self, rows: slice | NDArray[np.int64]) -> Scenes:
        """Return the scene parameters of some rows, without making those of a whole long table."""
        numbers = {name: torch.from_numpy(self.columns[name][rows]) for name in (*NUMBERS, *RADII, "points")}

        def several(*names: str) -> torch.Tensor:
            return torch.stack([numbers[name] for name in names], 1)

        places = {kind: place for place, kind in enumerate(KINDS)}
        kinds, inverse = np.unique(self.columns["class"][rows], return_inverse=True)
        return Scenes(
            kind=torch.from_numpy(np.array([places[kind] for kind in kinds], np.int64)[inverse]),
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
        words = {name: self.columns[name].astype("U16") for name in WORDS}
        return digest_arrays((name, words.get(name, values)) for name, values in self.columns.items())

    @property
    def world(self) -> World:
        """SHAPES or CHARS: the family that all classes belong to."""
        found = set(np.unique(self.columns["class"]).tolist())
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
        """Read a table that `write` stored, or any Parquet table with the same columns."""
        try:
            stored = pq.read_table(path)
            return cls({name: _values(stored[name]) for name in stored.column_names})
        except (pa.ArrowException, ValueError) as error:
            raise ValueError(f"{path} is no table of configurations: {error}") from error
        finally:
            pa.default_memory_pool().release_unused()


def _values(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return the values of a stored column; words without an object of Python for every row."""
    if not pa.types.is_string(column.type) or column.null_count or not len(column):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    words = column.combine_chunks().dictionary_encode()
    values: NDArray[Any] = np.array(words.dictionary.to_pylist(), np.str_)[words.indices.to_numpy()]
    return values


def _column(columns: Columns, name: str, kind: type[np.generic]) -> NDArray[Any]:
    if name not in columns:
        raise ValueError(f"the column {name!r} is missing; got {', '.join(columns) or 'none'}")
    try:
        return np.ascontiguousarray(np.asarray(columns[name]).astype(kind))
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"the column {name!r} does not hold {kind.__name__}: {error}") from error


def _integers(columns: Columns, name: str) -> NDArray[Any]:
    with np.errstate(invalid="ignore"):  # NaN is detected below
        integers, values = _column(columns, name, np.int64), np.asarray(columns[name])
    wrong = np.flatnonzero(integers != values)
    if wrong.size:
        raise ValueError(f"row {wrong[0]}: {name} is {values[wrong[0]]}; it must be an integer")
    return integers


def _check_lengths(columns: Columns) -> None:
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1 or not min(lengths):
        raise ValueError(f"columns must have one length of at least 1, got {sorted(lengths)}")


def _check_words(columns: Columns) -> None:
    for name, known in (("class", KINDS), ("corruption", ("", *shifts.names()))):
        for word in np.unique(columns[name]):
            if word not in known:
                row = np.flatnonzero(columns[name] == word)[0]
                raise unknown(f"{name} in row {row}:", str(word), known)


def _check_severity(columns: Columns) -> None:
    severity, corrupted = columns["severity"], columns["corruption"] != ""
    wrong = np.flatnonzero(np.where(corrupted, ~np.isin(severity, SEVERITIES), severity != 0))
    if wrong.size:
        row = wrong[0]
        allowed = f"lie in {SEVERITIES[0]}..{SEVERITIES[-1]} with" if corrupted[row] else "be 0 without"
        raise ValueError(f"row {row}: severity is {severity[row]}; it must {allowed} a corruption")
