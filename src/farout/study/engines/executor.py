"""The interface between the scheduler and who computes: tasks, and what becomes of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from farout.study.cells.cell import Arrays, Chunk, Work


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
        """A task was cancelled before it began."""

    def slow(self, number: int, seconds: float, cell: str) -> None:
        """This cell has been at one chunk for so long."""


class Executor(ABC):
    """Computes tasks and tells a listener, from `wait` alone, what becomes of them."""

    slots: int
    """Tasks that it takes at a time, those that wait for a process included."""

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
