"""A worker process: takes orders from a connection, performs them, and says what has become of them."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import torch

from farout.interrupts import Stop
from farout.progress import listening, silent
from farout.study.cells.cell import Chunk, formatted
from farout.study.engines import activity
from farout.study.engines.performer import Performer
from farout.study.store import Store, StoreError


class Order(NamedTuple):
    """A task as it travels to a worker; never stored."""

    number: int
    work: bytes
    chunk: Chunk | None
    seconds: float
    limited: bool
    """Does the time limit hold for it?"""
    endless: bool = False
    """May it take any time, as a training does?"""


class RunIsOver(Stop):
    """The run was stopped: nobody waits for this chunk any more."""


def work(connection: Connection, root: str, device: str, note: str, over: Any) -> None:
    """Perform tasks until there are no more, then end at once, whatever threads a detector has left behind."""
    worker = _Worker(connection, Store(root), torch.device(device), over)
    with activity.recording(Path(note)), listening(silent):  # the parent shows progress
        worker.serve()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class _Worker:
    def __init__(self, connection: Connection, store: Store, device: torch.device, over: Any) -> None:
        self._connection, self._over, self._performer = connection, over, Performer(store, device)
        self._sending, self._orders, self._canceled = threading.Lock(), SimpleQueue[Order | None](), set[int]()
        logger = logging.getLogger("farout")
        logger.addHandler(_Forward(self._say))
        logger.propagate = False
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self) -> None:
        """Take orders as they come, so that the parent never waits for a worker that is busy."""
        with contextlib.suppress(EOFError, OSError):
            while (order := self._connection.recv()) is not None:
                if isinstance(order, int):
                    self._canceled.add(order)
                else:
                    self._orders.put(order)
        self._orders.put(None)

    def _say(self, kind: str, number: int, content: Any = None) -> None:
        with self._sending:
            self._connection.send((kind, number, content))

    def serve(self) -> None:
        """Perform orders one after the other."""
        while (order := self._orders.get()) is not None:
            if order.number in self._canceled or self._over.value:
                self._say("skipped", order.number)
                continue
            self._say("began", order.number)
            try:
                self._perform(order)
            except StoreError as error:
                self._say("unstored", order.number, str(error))
            except BaseException:
                self._say("failed", order.number, formatted())

    def _perform(self, order: Order) -> None:
        task = _unpacked(order.work)
        if order.chunk is None:
            self._say("finished", order.number, self._performer.finish(task, order.seconds))
            return

        def progress(images: int) -> None:
            if self._over.value:
                raise RunIsOver
            self._say("progressed", order.number, images)

        self._say("computed", order.number, self._performer.compute(task, order.chunk, progress))


_latest: tuple[bytes, Any] = b"", None


def _unpacked(packed: bytes) -> Any:
    """The work, unpickled once for all chunks that follow each other."""
    global _latest
    if _latest[0] != packed:
        _latest = packed, pickle.loads(packed)
    return _latest[1]


class _Forward(logging.Handler):
    """Sends log messages to the parent, who shows them beside its progress bar."""

    def __init__(self, say: Any) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say("logged", record.levelno, record.getMessage())
