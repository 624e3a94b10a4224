"""Exit handling of commands: Ctrl-C and SIGTERM, threads left running, and errors in a user's file."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from farout.interrupts import exit_code
from farout.user_code import raised_at

PATIENCE = 2.0
"""Seconds to wait for threads to end."""


def leave(code: int) -> NoReturn:
    """Exit with this code, even if a detector left threads running."""
    others = [one for one in threading.enumerate() if not one.daemon and one is not threading.main_thread()]
    deadline = time.monotonic() + PATIENCE
    for one in others:
        one.join(max(0, deadline - time.monotonic()))  # a stopped pool needs a moment
    left = [one for one in others if one.is_alive()]
    if not left:
        sys.exit(code)
    typer.echo(f"ended {len(left)} threads that were left running: {', '.join(one.name for one in left)}", err=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def message(error: Exception) -> str:
    """Return an error's message with the user's line that raised it; for unexpected errors also the type."""
    place, foreseen = raised_at(error), isinstance(error, ValueError | OSError | ImportError | TypeError | RuntimeError)
    if foreseen and not isinstance(error, RecursionError) and str(error):
        return f"{error}{place}"
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = place or f" ({last.filename}, line {last.lineno})"
    return f"{type(error).__name__}: {str(error) or 'no message'}{place}"


@contextmanager
def stoppable() -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into a message and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("stopped; finished results are kept, the same command resumes from there", err=True)
        raise typer.Exit(exit_code() or 130) from None


@contextmanager
def users_code() -> Iterator[None]:
    """Turn any error in a user's file into a ValueError (bad usage)."""
    try:
        yield
    except SystemExit as error:
        raise ValueError(f"the file ends the program with sys.exit({error.code!r}){raised_at(error)}") from error
    except Exception as error:
        place = "" if isinstance(error, SyntaxError) else raised_at(error)
        if isinstance(error, ValueError | OSError) and not place:  # raised by farout: no such file
            raise
        raise ValueError(f"the file cannot be imported: {type(error).__name__}: {error}") from error
