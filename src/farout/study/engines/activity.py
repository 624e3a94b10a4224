"""Activity: which cell a process is computing right now, in a small file that can be read after it has died."""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from farout.interrupts import Stop

_LAYOUT = struct.Struct("<d H 240s")  # since when, length of the cell's id, the id


class Activity(NamedTuple):
    """One entry of the file."""

    cell: str
    """Id of the cell whose code runs; empty between cells."""
    since: float
    """When it began, by the clock that all processes of a machine share."""


_file: mmap.mmap | None = None
_interrupted = ""
"""The innermost cell that was being computed when a `Stop` was raised."""


@contextmanager
def recording(path: Path) -> Iterator[None]:
    """Record this process's activity in a new file, which goes when this ends in whatever way Python knows."""
    global _file
    outer = _file
    with path.open("x+b") as file:
        file.write(_LAYOUT.pack(time.monotonic(), 0, b""))
        file.flush()
        _file = mmap.mmap(file.fileno(), _LAYOUT.size)
    try:
        yield
    finally:
        _file.close()
        _file = outer
        path.unlink(missing_ok=True)


@contextmanager
def of(cell: str) -> Iterator[None]:
    """Record that this cell is being computed; afterwards, that the cell around it is."""
    global _interrupted
    if _file is None:
        yield
        return
    outer = _parsed(_file[:]).cell
    _write(cell)
    try:
        yield
    except Stop:
        _interrupted = _interrupted or cell
        raise
    finally:
        _write(outer)


def interrupted() -> str:
    """Return the cell that an order to stop has met, once."""
    global _interrupted
    cell, _interrupted = _interrupted, ""
    return cell


def _write(cell: str) -> None:
    assert _file is not None
    code = cell.encode()
    _file[:] = _LAYOUT.pack(time.monotonic(), len(code), code)


def read(path: Path) -> Activity | None:
    """Return what a process has recorded; None where there is nothing to read."""
    try:
        return _parsed(path.read_bytes())
    except (OSError, ValueError, struct.error):
        return None


def _parsed(raw: bytes) -> Activity:
    since, length, code = _LAYOUT.unpack(raw)
    return Activity(code[:length].decode(), since)
