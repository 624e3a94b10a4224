"""Activity: which cell a process is computing right now, in a small file that can be read after it has died."""

from __future__ import annotations

import json
import mmap
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from farout.files import opened
from farout.interrupts import Stop
from farout.study.cells.cell import Cell

_HEAD = struct.Struct("<dH")  # since when; length of what follows
_SIZE = 2048


class Activity(NamedTuple):
    """The content of the file."""

    since: float
    """When it began, by the clock that all processes of a machine share."""
    cell: str = ""
    """Id of the cell whose code runs; empty between cells."""
    title: str = ""
    suspect: str = ""


_file: mmap.mmap | None = None
_interrupted = ""
"""The innermost cell that was being computed when a `Stop` was raised."""


@contextmanager
def recording(path: Path) -> Iterator[None]:
    """Record this process's activity in a new file, which goes when this ends in whatever way Python knows."""
    global _file
    outer = _file
    with path.open("x+b") as file:
        file.write(bytes(_SIZE))  # a hole in the file would end the process when the disk is full
        file.flush()
        _file = mmap.mmap(file.fileno(), _SIZE)
    _write(b"[]")
    try:
        yield
    finally:
        _file.close()
        _file = outer
        path.unlink(missing_ok=True)


@contextmanager
def of(cell: Cell | None) -> Iterator[None]:
    """Record that this cell is being computed; afterwards, that the one around it is."""
    global _interrupted
    if _file is None or cell is None:
        yield
        return
    outer = _content(_file)
    _write(json.dumps([cell.id, cell.title[:400], cell.suspect[:100]]).encode())
    try:
        yield
    except Stop:
        _interrupted = _interrupted or cell.id
        raise
    finally:
        _write(outer)


def touch() -> None:
    """Record that the cell goes on: the time limit begins anew."""
    if _file is not None:
        _file[:8] = struct.pack("<d", time.monotonic())


def since() -> float:
    """Return when the cell that this process is at began."""
    return 0.0 if _file is None else float(_HEAD.unpack(_file[: _HEAD.size])[0])


def interrupted() -> str:
    """Return the id of the cell that an order to stop has met, once."""
    global _interrupted
    cell, _interrupted = _interrupted, ""
    return cell


def _write(content: bytes) -> None:
    assert _file is not None
    _file[: _HEAD.size + len(content)] = _HEAD.pack(time.monotonic(), len(content)) + content


def _content(raw: mmap.mmap | bytes) -> bytes:
    length = _HEAD.unpack(raw[: _HEAD.size])[1]
    return raw[_HEAD.size : _HEAD.size + length]


def read(path: Path) -> Activity | None:
    """Return what a process has recorded; None where there is nothing to read."""
    try:
        with opened(path) as file:
            raw = file.read(_SIZE)
        return Activity(_HEAD.unpack(raw[: _HEAD.size])[0], *map(str, json.loads(_content(raw))))
    except (OSError, ValueError, TypeError, struct.error):
        return None
