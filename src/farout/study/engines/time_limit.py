"""Time limit of a task that is computed in this process."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from farout.interrupts import Stop
from farout.study.engines import activity


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
