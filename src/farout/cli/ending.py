"""How verbs end: on Ctrl-C and SIGTERM, and on what goes wrong in a user's file."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from farout.user_code import raised_at

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
    except Exception as error:
        place = "" if isinstance(error, SyntaxError) else raised_at(error)
        if isinstance(error, ValueError | OSError) and not place:  # of ours: no such file
            raise
        raise ValueError(f"the file cannot be imported: {type(error).__name__}: {error}") from error
