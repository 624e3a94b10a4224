"""A split as a table of attribute values: sampled from a seed, stored as Parquet, drawn when images are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import ArrayLike, NDArray

from farout.data.scenes.scene import KINDS, MOST_POINTS, Scenes
from farout.data.scenes.worlds import SEVERITIES, WORLDS, World
from farout.identity import digest_arrays
from farout.registry import unknown

NUMBERS = (
    "hue", "size", "rotation_x", "rotation_y", "rotation_z", "x", "y",
    "intensity", "ambient", "specular", "light_angle", "aspect", "aspect_2", "smoothness",
)  # fmt: skip
"""Columns of float32; lengths are shares of the side, angles degrees."""
INTEGERS = ("points", "severity", "noise")
"""Columns of int64; severity is 0 where there is no corruption, `noise` numbers the corruption's randomness."""
RADII = tuple(f"radius_{point}" for point in range(MOST_POINTS))
WORDS = ("class", "corruption")

Columns = Mapping[str, NDArray[Any]]


class Configurations:
    """One row per image: class, hue, size, rotation, position, light, shape parameters, corruption and severity."""

    def __init__(self, columns: Columns) -> None:
        self.columns = {
            **{name: _column(columns, name, np.str_) for name in WORDS},
            **{name: _column(columns, name, np.float32) for name in (*NUMBERS, *RADII)},
            **{name: _column(columns, name, np.int64) for name in INTEGERS},
        }
        _check(self.columns)

    def __len__(self) -> int:
        return len(self.columns["class"])

    def __getitem__(self, places: ArrayLike) -> Configurations:
        chosen = np.asarray(places)
        return Configurations({name: values[chosen] for name, values in self.columns.items()})

    @cached_property
    def scenes(self) -> Scenes:
        """What is to be drawn."""
        numbers = {name: torch.from_numpy(self.columns[name]) for name in (*NUMBERS, *RADII, "points")}

        def several(*names: str) -> torch.Tensor:
            return torch.stack([numbers[name] for name in names], 1)

        places = {kind: place for place, kind in enumerate(KINDS)}
        kinds, inverse = np.unique(self.columns["class"], return_inverse=True)
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
        raise ValueError(f"these classes belong to no one family: {', '.join(sorted(found))}")

    def write(self, path: Path) -> Path:
        """Store as Parquet; equal tables give equal bytes."""
        table = pa.table({name: pa.array(values) for name, values in self.columns.items()})
        pq.write_table(table, path, compression="zstd")
        return path

    @classmethod
    def read(cls, path: Path) -> Configurations:
        """A table that `write` stored, or one of your own with the same columns."""
        try:
            table = pq.read_table(path)
            columns = {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}
            return cls(columns)
        except (pa.ArrowException, ValueError) as error:
            raise ValueError(f"{path} is no table of configurations: {error}") from error


def _column(columns: Columns, name: str, kind: type[np.generic]) -> NDArray[Any]:
    if name not in columns:
        raise ValueError(f"the column {name!r} is missing; there are {', '.join(columns) or 'none'}")
    try:
        return np.ascontiguousarray(np.asarray(columns[name]).astype(kind))
    except (TypeError, ValueError) as error:
        raise ValueError(f"the column {name!r} does not hold {kind.__name__}: {error}") from error


def _check(columns: Columns) -> None:
    """Errors that name the column and the row."""
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1 or not min(lengths):
        raise ValueError(f"columns must have one length of at least 1, got {sorted(lengths)}")
    for name in (*NUMBERS, *RADII):
        wrong = np.flatnonzero(~np.isfinite(columns[name]))
        if wrong.size:
            raise ValueError(f"the column {name!r} is not finite in {wrong.size} rows, the first is {wrong[0]}")
    _known("class", columns["class"], KINDS)
    from farout import shifts

    _known("corruption", columns["corruption"], ["", *shifts.names()])
    if ((columns["corruption"] != "") & ~np.isin(columns["severity"], (*SEVERITIES, 3, 4, 5))).any():
        raise ValueError("the column 'severity' must lie in 1..5 wherever there is a corruption")


def _known(what: str, values: NDArray[Any], known: Iterable[str]) -> None:
    known = list(known)
    for value in np.unique(values):
        if value not in known:
            raise unknown(what, str(value), known)
