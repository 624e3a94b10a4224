"""Interface between the scheduler and executors: tasks, their outcomes, and the registry of engines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, cast

import torch

from farout.component import Named
from farout.interrupts import requested
from farout.registry import Registry, unknown
from farout.study.cells.cell import Arrays, Chunk, Work
from farout.study.cells.errors import format_traceback
from farout.study.engines import activity
from farout.study.engines.performer import Performer
from farout.study.engines.time_limit import OutOfTime, time_limit, timeout_message
from farout.study.store import Store, StoreError


class Task(NamedTuple):
    """Unit of work for one process."""

    number: int
    work: Work
    chunk: Chunk | None
    """The chunk to compute; None: collect the stored chunks of the work, and write its records (an executor of whole
    works also computes the missing chunks)."""
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

    def returned(self, number: int) -> None:
        """Report that a work was not computed, since a result that it requires is missing."""

    def slow(self, number: int, seconds: float, cell: str) -> None:
        """Report that a task has been computing this cell for so many seconds without progress."""

    def noted(self, state: str) -> None:
        """Report the state of the engine, which the progress display shows."""


@dataclass(frozen=True)
class EngineOptions:
    """Options of an engine: the fields of a frozen dataclass. The base has none."""

    @property
    def machine(self) -> str:
        """Name of the machines that measurements of time belong to; empty for this one."""
        return ""


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
    options: EngineOptions = EngineOptions()
    """Options of the engine."""
    memory: int | None = None
    """Bytes of memory of all processes together; None = no limit."""


class Executor(Named, ABC):
    """Base of executors: compute tasks, and report their outcomes to the listener of the context, only within `wait`.

    A new engine is one subclass, registered with `@farout.register` and selected by name with `farout run --engine`.
    Its only argument is the `Context` of a run. `perform` computes a task in this process; a process elsewhere computes
    it with a `Performer`, and reports an error as `failed`.
    """

    Options: ClassVar[type[EngineOptions]] = EngineOptions
    """Class of its options."""
    whole: ClassVar[bool] = False
    """True if it takes whole works instead of chunks, also before the results that they require are there, and if its
    processes write the records themselves: it reports a work as finished once its results are in the store."""
    remote: ClassVar[bool] = False
    """True if it computes on other machines, so that the device need not exist on this one."""
    slots: int
    """Number of tasks that it accepts at a time, including queued ones; 0: this process computes everything."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._performer = Performer(context.store, context.device)

    def perform(self, task: Task) -> None:
        """Compute a task in this process, and report its outcome to the listener: results, error, or time limit."""
        self._compute(task)()

    def _compute(self, task: Task) -> Callable[[], None]:
        """Compute a task; return the call that reports its outcome, so that errors of the listener are not caught."""
        performer, listener, number = self._performer, self.context.listener, task.number
        limit = self.context.timeout if task.work.limited and task.chunk is not None else None
        try:
            with time_limit(limit):
                if task.chunk is None:
                    return partial(listener.finished, number, performer.finish(task.work, task.seconds))
                progress = partial(listener.progressed, number)
                return partial(listener.computed, number, performer.compute(task.work, task.chunk, progress))
        except OutOfTime:
            return partial(listener.died, number, timeout_message(limit), activity.interrupted())
        except StoreError:
            raise
        except BaseException as error:
            if requested(error):
                raise
            return partial(listener.failed, number, format_traceback())

    @classmethod
    def occupied(cls, store: Store) -> str:
        """Return why another engine cannot use the store now, such as jobs that still run; empty if it can."""
        return ""

    @abstractmethod
    def submit(self, task: Task) -> None:
        """Accept a task."""

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Report outcomes to the listener; block until there is one, at most for so many seconds.

        seconds: 0 if this process has tasks of its own to compute in the meantime.
        """

    @abstractmethod
    def cancel(self, numbers: Collection[int]) -> None:
        """Cancel those of these tasks that have not begun; each is later reported to the listener as skipped."""

    @abstractmethod
    def close(self, stopped: bool) -> None:
        """End all processes. stopped: the run was interrupted, so running tasks may save their intermediate state."""


ENGINES: Registry[Executor] = Registry("engine", Executor, functions=False)
"""Executors by name."""


def engine_class(name: str) -> type[Executor]:
    """Return the class of an engine. Raise for an unknown name."""
    return cast(type[Executor], ENGINES[name])


def parse_options(engine: str, options: Mapping[str, Any]) -> EngineOptions:
    """Return the options of an engine. Raise for an unknown engine or option."""
    kind = engine_class(engine).Options
    known = [field.name for field in fields(kind)]
    for name in options:
        if name not in known:
            raise unknown(f"option of the engine {engine!r}:", name, known)
    return kind(**options)
