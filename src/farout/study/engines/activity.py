"""Activity of a process: the cell that it is computing, in a small file that can be read after it has died."""

from __future__ import annotations

import json
import mmap
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from farout.files import open_file
from farout.interrupts import Stop
from farout.study.cells.cell import Cell

_HEAD = struct.Struct("<dIH")  # start time; process id; length of the content that follows
_SIZE = 2048


class Activity(NamedTuple):
    """Content of an activity file."""

    since: float
    """Start time on the monotonic clock, which all processes of a machine share."""
    pid: int = 0
    cell: str = ""
    """Id of the cell that is being computed; empty between cells, and where several are computed together."""
    title: str = ""
    suspect: str = ""


_file: mmap.mmap | None = None
_interrupted = ""
"""Id of the innermost cell that was being computed when a `Stop` was raised."""


@contextmanager
def recording(path: Path) -> Iterator[None]:
    """Record this process's activity in a new file; remove it when the block ends normally or by an exception."""
    global _file
    outer = _file
    with path.open("x+b") as file:
        file.write(bytes(_SIZE))  # allocates the blocks: with a full disk, a sparse file would end the process later
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
def computing(*cells: Cell) -> Iterator[None]:
    """Record that these cells are computed within the block, and the enclosing ones after it.

    Of several cells, only the title of the first is recorded: none of them alone is to blame for a crash.
    """
    global _interrupted
    if _file is None or not cells:
        yield
        return
    first, alone = cells[0], len(cells) == 1
    outer = _content(_file)
    _write(json.dumps([first.id if alone else "", first.title[:400], first.suspect[:100] if alone else ""]).encode())
    try:
        yield
    except Stop:
        _interrupted = _interrupted or (first.id if alone else "")
        raise
    finally:
        _write(outer)


def touch() -> None:
    """Restart the time limit of the current cell, since it has made progress."""
    if _file is not None:
        _file[:8] = struct.pack("<d", time.monotonic())


def since() -> float:
    """Return the start time of the cell that this process is computing; 0 if nothing is recorded."""
    return 0.0 if _file is None else float(_HEAD.unpack(_file[: _HEAD.size])[0])


def interrupted() -> str:
    """Return the id of the cell that a `Stop` has interrupted, and clear it."""
    global _interrupted
    cell, _interrupted = _interrupted, ""
    return cell


def _write(content: bytes) -> None:
    assert _file is not None
    _file[: _HEAD.size + len(content)] = _HEAD.pack(time.monotonic(), os.getpid(), len(content)) + content


def _content(raw: mmap.mmap | bytes) -> bytes:
    length = _HEAD.unpack(raw[: _HEAD.size])[2]
    return raw[_HEAD.size : _HEAD.size + length]


def read(path: Path) -> Activity | None:
    """Return the activity that a process has recorded; None if the file is missing or not readable."""
    try:
        with open_file(path) as file:
            raw = file.read(_SIZE)
        since, pid, _ = _HEAD.unpack(raw[: _HEAD.size])
        return Activity(since, pid, *map(str, json.loads(_content(raw))))
    except (OSError, ValueError, TypeError, struct.error):
        return None
