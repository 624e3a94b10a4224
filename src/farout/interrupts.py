"""Requests to stop (Ctrl-C, SIGTERM), distinguished from a `KeyboardInterrupt` that a detector raises itself."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_received: list[int] = []
"""Signals received since the last `listen`."""
_trusted = False
"""True while our handler is installed, so that a KeyboardInterrupt without a received signal is not the user's."""
_deferring = False
_deferred = False
"""True while a signal waits for the end of `deferred`."""


class Stop(BaseException):
    """Request of farout to stop running work; not caught by `except Exception`."""


def listen(*signals: int) -> None:
    """Install a handler that records each of these signals and raises KeyboardInterrupt.

    SIGINT is not changed if other code handles or ignores it, as under nohup.
    """
    global _trusted
    _received.clear()
    for number in signals:
        if number != signal.SIGINT or signal.getsignal(number) is signal.default_int_handler:
            signal.signal(number, _record)
    _trusted = signal.getsignal(signal.SIGINT) in (_record, signal.SIG_IGN)


@contextmanager
def listening() -> Iterator[None]:
    """Handle Ctrl-C within the block, if this is the main thread and no other code handles it."""
    global _trusted
    if threading.current_thread() is not threading.main_thread() or (
        signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    listen(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _trusted = False


@contextmanager
def deferred() -> Iterator[None]:
    """Defer a signal that our handler receives to the end of the block; a second one is not deferred."""
    global _deferring, _deferred
    if _deferring or threading.current_thread() is not threading.main_thread():
        yield
        return
    _deferring = True
    try:
        yield
    finally:
        _deferring, heard, _deferred = False, _deferred, False
        if heard:
            raise KeyboardInterrupt


def ignore() -> None:
    """Ignore Ctrl-C; for worker processes, which their parent stops."""
    global _trusted
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _trusted = True


def requested(error: BaseException) -> bool:
    """Return True if this exception is a request to stop: `Stop`, or the user's Ctrl-C."""
    if isinstance(error, KeyboardInterrupt):
        return bool(_received) or not _trusted
    return isinstance(error, Stop)


def exit_code() -> int | None:
    """Return the exit code after a signal to stop; None without one."""
    return 128 + _received[0] if _received else None


def _record(number: int, frame: object) -> None:
    global _deferred
    _received.append(number)
    if _deferring and not _deferred:
        _deferred = True
        return
    raise KeyboardInterrupt
