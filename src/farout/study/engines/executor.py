"""Interface between the scheduler and executors: tasks, what becomes of them, and the registry of engines."""

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
    """One piece of work for one process."""

    number: int
    work: Work
    chunk: Chunk | None
    """The chunk to compute; None: collect the chunks that the store keeps, and write the records."""
    seconds: float = 0.0
    """Seconds that the work has taken so far, for its records."""


class Listener(Protocol):
    """A scheduler, as executors see it. Tasks are named by their numbers."""

    def progressed(self, number: int, images: int) -> None:
        """More images of a task's chunk are done."""

    def computed(self, number: int, results: Arrays) -> None:
        """A chunk is done."""

    def finished(self, number: int, failed: Mapping[str, str]) -> None:
        """The records of a work are written, but for these cells, with the traceback of each."""

    def failed(self, number: int, why: str) -> None:
        """A task raised an error; `why` is its traceback."""

    def died(self, number: int, why: str, cell: str) -> None:
        """A task ended its process or ran out of time while this cell was computed (empty: not known which)."""

    def skipped(self, number: int) -> None:
        """A task was canceled before it began."""

    def slow(self, number: int, seconds: float, cell: str) -> None:
        """This cell has been at one chunk for so long."""


class Context(NamedTuple):
    """One run, as an executor gets it."""

    listener: Listener
    store: Store
    """Results, which all processes write: `Store(store.root)` opens it in another one."""
    device: torch.device
    notes: Path
    """Folder for the activity of each process, see activity.py."""
    workers: int = 0
    """Processes that were asked for."""
    plugins: tuple[str, ...] = ()
    """Files of the user's that every process imports first."""
    timeout: float | None = None
    """Seconds that a detector may take for one chunk; None = no limit."""


class Executor(Named, ABC):
    """Computes tasks and tells a listener, from `wait` alone, what becomes of them.

    A new engine is one class: derive this, `@farout.register` it, and choose it by name with `farout run --engine`. It
    is made with the `Context` of a run as its only argument; what a process does with a task is in performer.py.
    """

    slots: int
    """Tasks that it takes at a time, those that wait for a process included; 0: this process computes all."""

    @abstractmethod
    def __init__(self, context: Context) -> None: ...

    @abstractmethod
    def submit(self, task: Task) -> None:
        """Hand over a task."""

    @abstractmethod
    def wait(self) -> None:
        """Let work go on until something has been told to the listener, or for a short time."""

    @abstractmethod
    def cancel(self, numbers: Collection[int]) -> None:
        """Leave out those of these tasks that have not begun; the listener hears of each when its turn has come."""

    @abstractmethod
    def close(self, stopped: bool) -> None:
        """End all processes; where the run was stopped, tasks may keep what they are at."""


ENGINES: Registry[Executor] = Registry("engine", Executor)
"""Executors by name."""
