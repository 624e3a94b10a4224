"""Worker process: receives orders through a connection, performs them, and reports the outcomes."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import sys
import threading
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from pkgutil import iter_modules
from queue import SimpleQueue
from typing import Any, NamedTuple

import torch

from farout.devices import is_host
from farout.interrupts import Stop
from farout.memory import limit_memory
from farout.progress import listening, silent
from farout.study import cells
from farout.study.cells.cell import Chunk
from farout.study.cells.errors import format_traceback
from farout.study.engines import activity
from farout.study.engines.performer import Performer
from farout.study.store import Store, StoreError


class Order(NamedTuple):
    """Task in the form that is sent to a worker; never stored."""

    number: int
    work: bytes
    chunk: Chunk | None
    seconds: float
    limited: bool
    """True if the time limit applies."""
    unbounded: bool = False
    """True if it may take any time, like a training."""


class Setup(NamedTuple):
    """First message to a worker: what it works for."""

    root: str
    """Folder of the store."""
    device: str
    note: str
    """Path of its activity file."""
    share: int | None
    """Bytes of memory that the process may use; None = no limit."""


class RunIsOver(Stop):
    """The run was stopped, so the result of this chunk is no longer needed."""


def work(connection: Connection, over: Any) -> None:
    """Wait for the setup, and perform orders until there are no more; then exit at once, even if a detector's threads
    are still running."""
    for module in iter_modules(cells.__path__):  # what works consist of: imported while the run is being planned
        import_module(f"{cells.__name__}.{module.name}")
    try:
        setup: Setup = connection.recv()
    except (EOFError, OSError):  # the run has ended before it began
        os._exit(0)
    device = torch.device(setup.device)
    if setup.share is not None and is_host(device):  # a GPU's driver reserves far more than it uses
        limit_memory(setup.share)
    worker = _Worker(connection, Store(setup.root), device, over)
    with activity.recording(Path(setup.note)), listening(silent):  # the parent shows progress
        worker.serve()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class _Worker:
    def __init__(self, connection: Connection, store: Store, device: torch.device, over: Any) -> None:
        self._connection, self._over, self._performer = connection, over, Performer(store, device)
        self._sending, self._orders, self._canceled = threading.Lock(), SimpleQueue[Order | None](), set[int]()
        logger = logging.getLogger("farout")
        logger.addHandler(_Forward(self._send))
        logger.propagate = False
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self) -> None:
        """Receive orders in a separate thread, so that the parent never blocks on a busy worker."""
        with contextlib.suppress(EOFError, OSError):
            while (order := self._connection.recv()) is not None:
                if isinstance(order, int):
                    self._canceled.add(order)
                else:
                    self._orders.put(order)
        self._orders.put(None)

    def _send(self, kind: str, number: int, content: Any = None) -> None:
        with self._sending:
            self._connection.send((kind, number, content))

    def serve(self) -> None:
        """Perform the orders one after the other."""
        while (order := self._orders.get()) is not None:
            if order.number in self._canceled or self._over.value:
                self._send("skipped", order.number)
                continue
            self._send("began", order.number)
            try:
                self._perform(order)
            except StoreError as error:
                self._send("unstored", order.number, str(error))
            except BaseException:
                self._send("failed", order.number, format_traceback())

    def _perform(self, order: Order) -> None:
        task = _unpack(order.work)
        if order.chunk is None:
            self._send("finished", order.number, self._performer.finish(task, order.seconds))
            return

        def progress(images: int) -> None:
            if self._over.value:
                raise RunIsOver
            self._send("progressed", order.number, images)

        self._send("computed", order.number, self._performer.compute(task, order.chunk, progress))


_latest: tuple[bytes, Any] = b"", None


def _unpack(packed: bytes) -> Any:
    """Return the unpickled work, cached for its next chunks."""
    global _latest
    if _latest[0] != packed:
        _latest = packed, pickle.loads(packed)
    return _latest[1]


class _Forward(logging.Handler):
    """Log handler that sends messages to the parent, which shows them beside its progress bar."""

    def __init__(self, send: Any) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        self._send("logged", record.levelno, record.getMessage())
