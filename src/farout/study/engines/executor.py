"""Interface between the scheduler and executors: tasks, their outcomes, and the registry of engines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

import torch

from farout.component import Named
from farout.registry import Registry
from farout.study.cells.cell import Arrays, Chunk, Work
from farout.study.store import Store


class Task(NamedTuple):
    """Unit of work for one process."""

    number: int
    work: Work
    chunk: Chunk | None
    """The chunk to compute; None: collect the stored chunks of the work, and write its records."""
    seconds: float = 0.0
    """Seconds that the work has taken so far; written to its records."""


class Listener(Protocol):
    """Callbacks of the scheduler that an executor calls. Tasks are identified by their numbers."""

    def progressed(self, number: int, images: int) -> None:
        """Report that a task has processed this many more images of its chunk."""

    def computed(self, number: int, results: Arrays) -> None:
        """Report the results of a computed chunk."""

    def finished(self, number: int, failed: Mapping[str, str]) -> None:
        """Report that the records of a work are written, except for the failed cells: cell id -> traceback."""

    def failed(self, number: int, traceback: str) -> None:
        """Report that a task raised an error."""

    def died(self, number: int, reason: str, cell: str) -> None:
        """Report that a task ended its process or ran out of time while computing this cell (empty: unknown)."""

    def skipped(self, number: int) -> None:
        """Report that a task was canceled before it began."""

    def slow(self, number: int, seconds: float, cell: str) -> None:
        """Report that a task has been computing this cell for so many seconds without progress."""


class Context(NamedTuple):
    """Settings of one run, passed to the executor."""

    listener: Listener
    store: Store
    """Store of results, which all processes write: another process opens it with `Store(store.root)`."""
    device: torch.device
    notes: Path
    """Folder of the activity files, one per process, see activity.py."""
    workers: int = 0
    """Number of worker processes requested."""
    plugins: tuple[str, ...] = ()
    """The user's plugin files, which every process imports first."""
    timeout: float | None = None
    """Seconds that a detector may take for one chunk; None = no limit."""


class Executor(Named, ABC):
    """Base of executors: compute tasks, and report their outcomes to a listener, only from within `wait`.

    A new engine is one subclass, registered with `@farout.register` and selected by name with `farout run --engine`.
    Its only argument is the `Context` of a run; performer.py computes a task.
    """

    slots: int
    """Number of tasks that it accepts at a time, including queued ones; 0: this process computes everything."""

    @abstractmethod
    def __init__(self, context: Context) -> None: ...

    @abstractmethod
    def submit(self, task: Task) -> None:
        """Accept a task."""

    @abstractmethod
    def wait(self) -> None:
        """Block until an outcome has been reported to the listener, or for a short time."""

    @abstractmethod
    def cancel(self, numbers: Collection[int]) -> None:
        """Cancel those of these tasks that have not begun; each is later reported to the listener as skipped."""

    @abstractmethod
    def close(self, stopped: bool) -> None:
        """End all processes. stopped: the run was interrupted, so running tasks may save their intermediate state."""


ENGINES: Registry[Executor] = Registry("engine", Executor)
"""Executors by name."""
