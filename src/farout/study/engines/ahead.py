"""Start of worker processes, also ahead of a run: they import the libraries while the run is being planned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, NamedTuple

from farout.processes import SPAWN, start_worker
from farout.study.engines import worker


class Started(NamedTuple):
    """Worker process that waits for its `worker.Setup`."""

    process: SpawnProcess
    connection: Connection
    over: Any
    """Shared flag: True once the run was stopped. It has no lock, which a killed worker might hold."""
    plugins: tuple[str, ...]


_ready: list[Started] = []
"""Processes that no run has taken yet."""


@contextmanager
def workers_ahead(count: int, plugins: tuple[str, ...] = ()) -> Iterator[None]:
    """Start processes that runs within the block take; those that no run has taken are killed at its end."""
    try:
        for _ in range(count):
            _ready.append(_start(plugins))
        yield
    finally:
        while _ready:
            left = _ready.pop()
            left.process.kill()
            left.process.join()
            left.connection.close()


def take_worker(plugins: tuple[str, ...]) -> Started:
    """Return a process that was started ahead with these plugins, or a new one."""
    return _ready.pop() if _ready and _ready[-1].plugins == plugins else _start(plugins)


def _start(plugins: tuple[str, ...]) -> Started:
    connection, theirs = SPAWN.Pipe()
    over = SPAWN.RawValue("b", False)
    process = start_worker(worker.work, (theirs, over), plugins)
    theirs.close()
    return Started(process, connection, over, plugins)
