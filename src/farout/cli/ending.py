"""The end of commands: on Ctrl-C and SIGTERM, with threads left behind, and on what goes wrong in a user's file."""

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
"""Seconds that threads have to end."""


def leave(code: int) -> NoReturn:
    """End the process with this exit code, also where a detector has left threads behind that never end."""
    others = [one for one in threading.enumerate() if not one.daemon and one is not threading.main_thread()]
    deadline = time.monotonic() + PATIENCE
    for one in others:
        one.join(max(0, deadline - time.monotonic()))  # a pool that was stopped needs a moment
    left = [one for one in others if one.is_alive()]
    if not left:
        sys.exit(code)
    typer.echo(f"ended {len(left)} threads that were left running: {', '.join(one.name for one in left)}", err=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def message(error: Exception) -> str:
    """Return the words of an error and the user's line it came from; of one that nobody foresaw also its type."""
    place, foreseen = raised_at(error), isinstance(error, ValueError | OSError | ImportError | TypeError | RuntimeError)
    if foreseen and not isinstance(error, RecursionError) and str(error):
        return f"{error}{place}"
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = place or f" ({last.filename}, line {last.lineno})"
    return f"{type(error).__name__}: {str(error) or 'without a word'}{place}"


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
    except SystemExit as error:
        raise ValueError(f"the file ends the program with sys.exit({error.code!r}){raised_at(error)}") from error
    except Exception as error:
        place = "" if isinstance(error, SyntaxError) else raised_at(error)
        if isinstance(error, ValueError | OSError) and not place:  # of ours: no such file
            raise
        raise ValueError(f"the file cannot be imported: {type(error).__name__}: {error}") from error
