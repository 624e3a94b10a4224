"""Executor that computes in this process, one task at a time."""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial

from farout.interrupts import Stop, requested
from farout.study.cells.errors import format_traceback
from farout.study.engines import activity
from farout.study.engines.executor import Context, Executor, Task
from farout.study.engines.performer import Performer
from farout.study.store import StoreError


class InlineExecutor(Executor):
    """Executor in this process: for work that cannot be sent to another process, and for runs without workers."""

    slots = 1

    def __init__(self, context: Context) -> None:
        self._listener, self._timeout = context.listener, context.timeout
        self._performer = Performer(context.store, context.device)
        self._tasks: deque[Task] = deque()
        self._canceled: set[int] = set()

    def submit(self, task: Task) -> None:
        self._tasks.append(task)

    def wait(self) -> None:
        task = self._tasks.popleft()
        if task.number in self._canceled:
            self._listener.skipped(task.number)
        else:
            self._perform(task)()

    def _perform(self, task: Task) -> Callable[[], None]:
        """Perform a task; return the call that reports its outcome to the listener."""
        performer, listener, number = self._performer, self._listener, task.number
        try:
            with time_limit(self._timeout if task.work.limited and task.chunk is not None else None):
                if task.chunk is None:
                    return partial(listener.finished, number, performer.finish(task.work, task.seconds))
                progress = partial(listener.progressed, number)
                return partial(listener.computed, number, performer.compute(task.work, task.chunk, progress))
        except OutOfTime:
            return partial(listener.died, number, timeout_message(self._timeout), activity.interrupted())
        except StoreError:
            raise
        except BaseException as error:
            if requested(error):
                raise
            return partial(listener.failed, number, format_traceback())

    def cancel(self, numbers: Collection[int]) -> None:
        self._canceled |= set(numbers)

    def close(self, stopped: bool) -> None:
        self._tasks.clear()


class OutOfTime(Stop):
    """A task has exceeded the time limit."""


def timeout_message(timeout: float | None) -> str:
    """Return the reason for ending a task that has exceeded the time limit."""
    return f"OutOfTime: took longer than {timeout:g} s for one chunk (--timeout)"


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise `OutOfTime` if one cell takes longer, provided the system has timers and this is the main thread.

    Code that holds the interpreter, such as a loop in C, is not interrupted; in worker processes it is.
    """
    main = threading.current_thread() is threading.main_thread()
    if seconds is None or not main or not hasattr(signal, "setitimer"):
        yield
        return
    began = time.monotonic()

    def check(number: int, frame: object) -> None:
        if time.monotonic() - max(began, activity.since()) >= seconds:
            raise OutOfTime

    before = signal.signal(signal.SIGALRM, check)
    signal.setitimer(signal.ITIMER_REAL, seconds, min(seconds / 4, 1.0))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
