"""How verbs end: on Ctrl-C and SIGTERM, and on what goes wrong in a user's file."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import typer

_heard: list[int] = []
"""The signals that asked for an end."""


def listen() -> None:
    """End on SIGTERM as on Ctrl-C, and remember it: a library interrupted in its import may raise something else."""
    _heard.clear()
    signal.signal(signal.SIGTERM, _hear)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it may be ignored, as with nohup
        signal.signal(signal.SIGINT, _hear)


def _hear(number: int, frame: object) -> None:
    _heard.append(number)
    raise KeyboardInterrupt


def exit_code() -> int | None:
    """The exit code, if a signal has asked for an end."""
    return 128 + _heard[0] if _heard else None


def message(error: Exception) -> str:
    """Return what is said of an error: its own words, or for one that nobody foresaw its type and where it arose."""
    if isinstance(error, ValueError | OSError | ImportError) and str(error):
        return str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{last.filename}, line {last.lineno}"
    foreseen = isinstance(error, TypeError | RuntimeError) and not isinstance(error, RecursionError) and str(error)
    return str(error) if foreseen else f"{type(error).__name__}: {str(error) or 'without a word'} ({place})"


@contextmanager
def stoppable() -> Iterator[None]:
    """Ctrl-C and SIGTERM end in a word and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("stopped; what was finished is kept, the same command goes on from there", err=True)
        raise typer.Exit(exit_code() or 130) from None


@contextmanager
def users_code() -> Iterator[None]:
    """Whatever goes wrong in a file of the user's is bad usage, and no trouble of ours."""
    try:
        yield
    except (ValueError, OSError):
        raise
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = "" if isinstance(error, SyntaxError) else f" ({last.filename}, line {last.lineno})"
        raise ValueError(f"the file cannot be imported: {type(error).__name__}: {error}{place}") from error
