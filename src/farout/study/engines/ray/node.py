"""The node's side: checks the node, computes one task, and yields its progress and its outcome.

The computation runs in a thread, so that the process can report progress and hear that the run is stopped meanwhile.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import torch

import farout
from farout import interrupts
from farout.devices import as_device
from farout.files import sha256
from farout.interrupts import Stop
from farout.plugins import load_plugin
from farout.progress import listening, silent
from farout.study.cells.cell import Chunk, Work
from farout.study.cells.errors import format_traceback
from farout.study.engines import activity
from farout.study.engines.performer import Performer
from farout.study.store import Store, StoreError

BEAT_SECONDS = 0.5
"""Seconds between two reports of a running task."""
PATIENCE = 10.0
"""Seconds that a canceled task has to save its intermediate state; then its process ends."""
VISIBLE_SECONDS = 90.0
"""Seconds until a node must see a file that another has written: network file systems delay it."""

Message = tuple[str, Any]
"""Kind and content: "beat", "logged", or an outcome."""
OUTCOMES = frozenset({"computed", "finished", "failed", "skipped", "unstored", "unfit"})
"""Kinds of the last message of a task."""


class Setup(NamedTuple):
    """Everything that a process needs to compute the tasks of a run."""

    root: str
    """Folder of the store, which all nodes share."""
    probe: str
    """File of the run in that folder, which tells it from a folder of the same name on another disk."""
    device: str
    plugins: tuple[tuple[str, str], ...]
    """Path and hash of each of the user's files."""
    folder: str
    """Working directory of the run."""
    versions: tuple[str, ...]
    """Versions of farout and torch in the run."""


class Order(NamedTuple):
    """Task in the form that is sent to a node; never stored."""

    number: int
    work: str
    """Key of the work, which comes separately."""
    chunk: Chunk | None
    seconds: float
    note: str
    """Path of the activity file."""
    parts: tuple[str, ...] = ()
    """Names of the files with finished chunks, which the node must see before it collects them."""


class Beat(NamedTuple):
    """Report of a running task."""

    images: int = 0
    """Images processed since the last report."""
    seconds: float = 0.0
    """Seconds since the current cell began or made progress."""
    cell: str = ""
    """Id of the cell that is being computed."""
    host: str = ""


class RunIsOver(Stop):
    """The run was stopped, or the task was canceled, so its result is no longer needed."""


class NodeUnfit(Exception):
    """The node cannot compute tasks of this run."""


def perform(setup: Setup, order: Order, packed: list[Any]) -> Iterator[Message]:
    """Compute a task: yield a beat at its begin and every half second, log messages, and at last its outcome.

    packed: reference to the pickled work, in a list so that it is fetched only by a process that does not have it yet.
    """
    interrupts.listen(signal.SIGINT)  # Ray cancels a task by an interrupt of the main thread
    try:
        performer = _performer(setup)
    except NodeUnfit as error:
        yield "unfit", f"{socket.gethostname()}: {error}"
        return
    yield "beat", Beat(host=socket.gethostname())
    try:
        work = _unpack(order.work, packed[0])
    except Exception:
        yield "failed", format_traceback()
        return
    yield from _Computation(performer, work, order).messages()


class _Computation:
    """Computation of a task in a thread of its own."""

    def __init__(self, performer: Performer, work: Work, order: Order) -> None:
        self._performer, self._work, self._order = performer, work, order
        self._box, self._over = SimpleQueue[Message](), threading.Event()
        self._began, self._images, self._reported = time.monotonic(), 0, 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def messages(self) -> Iterator[Message]:
        """Start the computation; yield what it reports, up to its outcome."""
        with listening(silent), _forwarded(self._box):
            try:
                self._thread.start()
                kind = ""
                while kind not in OUTCOMES:
                    kind, content = self._next()
                    yield kind, content
            finally:
                self._end()

    def _next(self) -> Message:
        with contextlib.suppress(KeyboardInterrupt):  # canceled: the computation ends at its next progress
            try:
                return self._box.get(timeout=BEAT_SECONDS)
            except Empty:
                return "beat", self._beat()
        self._over.set()
        return "beat", self._beat()

    def _beat(self) -> Beat:
        current, images = activity.read(Path(self._order.note)), self._images
        new, self._reported = images - self._reported, images
        since = max(current.since if current else 0.0, self._began)
        return Beat(new, time.monotonic() - since, current.cell if current else "", socket.gethostname())

    def _run(self) -> None:
        try:
            with activity.recording(Path(self._order.note)):
                message = self._compute()
        except RunIsOver:
            message = "skipped", None
        except StoreError as error:
            message = "unstored", str(error)
        except BaseException:
            message = "failed", format_traceback()
        self._box.put(message)

    def _compute(self) -> Message:
        work, order = self._work, self._order
        if order.chunk is None:
            await_files(self._performer.store.root / "partial" / work.id, order.parts, VISIBLE_SECONDS)
            return "finished", self._performer.finish(work, order.seconds)
        return "computed", self._performer.compute(work, order.chunk, self._progress)

    def _progress(self, images: int) -> None:
        if self._over.is_set():
            raise RunIsOver
        self._images += images

    def _end(self) -> None:
        """Let the thread end: after a cancel it saves its state; one that does not end takes the process with it."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(PATIENCE)
            if self._thread.is_alive():
                os._exit(1)


def await_files(folder: Path, names: tuple[str, ...], seconds: float) -> None:
    """Wait until a folder has these files, at most for so many seconds."""
    deadline = time.monotonic() + seconds
    while names and not set(names) <= (set(os.listdir(folder)) if folder.is_dir() else set()):  # noqa: PTH208
        if time.monotonic() > deadline:
            raise StoreError(
                f"{socket.gethostname()} does not see the finished chunks in {folder} that the run has written "
                f"{seconds:g} s ago: the folder of results must be shared by all nodes"
            )
        time.sleep(0.2)


_ready: tuple[Setup | None, Performer | None] = None, None
_latest: tuple[str, Any] = "", None


def _performer(setup: Setup) -> Performer:
    """Return the performer of this process; check the node when the first task arrives."""
    global _ready
    if _ready[0] != setup:
        _check(setup)
        _ready = setup, None
    device = assigned_device(setup.device, import_module("ray").get_gpu_ids())
    performer = _ready[1]
    if performer is None or performer.device != device:
        performer = Performer(Store(setup.root), device)
        _ready = setup, performer
    return performer


def _check(setup: Setup) -> None:
    """Raise `NodeUnfit` unless this node sees the run's folder and files and has its versions; load the plugins."""
    if versions() != setup.versions:
        raise NodeUnfit(f"it has farout and torch {versions()}, the run has {setup.versions}: install the same")
    if not Path(setup.probe).is_file():
        raise NodeUnfit(
            f"it does not see the run's folder {setup.root}: choose one with --out that all nodes share by one path"
        )
    with contextlib.suppress(OSError):
        os.chdir(setup.folder)
    try:
        as_device(setup.device)
    except (ValueError, RuntimeError) as error:
        raise NodeUnfit(str(error)) from error
    for path, content in setup.plugins:
        if not Path(path).is_file() or sha256(Path(path)) != content:
            raise NodeUnfit(f"the plugin {path} is missing or has another content: put it on a shared folder")
        try:
            load_plugin(Path(path))
        except BaseException as error:
            raise NodeUnfit(f"the plugin {path} cannot be imported: {type(error).__name__}: {error}") from error


def versions() -> tuple[str, ...]:
    """Return the versions of farout and torch."""
    return farout.__version__, str(torch.__version__)


def assigned_device(device: str, gpus: list[Any]) -> torch.device:
    """Return the device of a task: of `cuda`, the GPU that Ray has assigned to it."""
    chosen = torch.device(device)
    if chosen.type != "cuda" or chosen.index is not None or not gpus:
        return chosen
    return torch.device("cuda", int(gpus[0]))


def _unpack(key: str, packed: Any) -> Any:
    """Return the unpickled work, cached for its next chunks."""
    global _latest
    if _latest[0] != key:
        _latest = key, pickle.loads(import_module("ray").get(packed))
    return _latest[1]


@contextlib.contextmanager
def _forwarded(box: SimpleQueue[Message]) -> Iterator[None]:
    """Send log messages to the run, which shows them beside its progress bar."""
    logger, handler = logging.getLogger("farout"), _Forward(box)
    logger.addHandler(handler)
    propagate, logger.propagate = logger.propagate, False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate


class _Forward(logging.Handler):
    def __init__(self, box: SimpleQueue[Message]) -> None:
        super().__init__()
        self._box = box

    def emit(self, record: logging.LogRecord) -> None:
        self._box.put(("logged", (record.levelno, record.getMessage())))
