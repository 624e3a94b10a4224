"""Arrays in files: where they lie, checked before they are memory-mapped."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Header(NamedTuple):
    """Header of an array in .npy format."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    size: int
    """Place in the file where it ends and the values begin."""

    @property
    def values(self) -> int:
        """Bytes of the values."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(file: BinaryIO) -> Header:
    """Return the header that a file begins with; raise ValueError for other content and for Python objects."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("Object arrays are not read: they would run code; store numbers")
    return Header(shape, fortran, dtype, file.tell())


class Mapped(NamedTuple):
    """Array in a file, which stays there until its parts are read."""

    path: Path
    offset: int
    """Bytes before the values."""
    header: Header
    stamp: tuple[int, int]

    @classmethod
    def at(cls, path: Path, start: int = 0) -> Mapped:
        """Return the array in .npy format that begins `start` bytes into a file."""
        with path.open("rb") as file:
            file.seek(start)
            header = read_header(file)
        found = cls(path, header.size, header, stamp_of(path))
        if found.stamp[0] < found.offset + header.values:
            raise ValueError(
                f"it has {found.stamp[0] - found.offset:,} bytes of values, its header says {header.values:,}"
            )
        return found

    def open(self) -> NDArray[Any]:
        """Return the memory-mapped array, read-only."""
        shape, dtype, order = self.header.shape, self.header.dtype, "F" if self.header.fortran else "C"
        if not self.header.values:
            return np.empty(shape, dtype)
        mapped: Any = np.memmap(self.path, dtype, "r", self.offset, shape, order)  # type: ignore[call-overload]
        return np.asarray(mapped)

    def check(self) -> None:
        """Raise an error if the file is no longer the one that was opened."""
        check_stamp(self.path, self.stamp)


def stamp_of(path: Path) -> tuple[int, int]:
    """Return size and time of the last change of a file."""
    about = path.stat()
    return about.st_size, about.st_mtime_ns


def check_stamp(path: Path, stamp: tuple[int, int]) -> None:
    """Raise an error if a file is gone or has changed."""
    try:
        same = stamp_of(path) == stamp
    except OSError:
        same = False
    if not same:
        raise RuntimeError(f"{path} has changed or is gone since it was opened; load the set again")
