"""Errors of single cells: caught where they arise, stored as text with the results of a chunk."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from farout.interrupts import requested
from farout.user_code import raised_at

T = TypeVar("T")


def attempt(compute: Callable[[], T], *, but: Callable[[BaseException], bool] = lambda error: False) -> T | str:
    """Return the result of a cell's own code, or the traceback of the error that it raises.

    A detector may raise anything, even `SystemExit` or `KeyboardInterrupt`; only a request to stop is raised again, and
    errors of which `but` returns True.
    """
    try:
        return compute()
    except BaseException as error:
        if requested(error) or but(error):
            raise
        return format_traceback()


def format_traceback() -> str:
    """Return the traceback of the exception being handled, with characters that cannot be encoded escaped."""
    return traceback.format_exc().encode("utf-8", "backslashreplace").decode()


def error_line(text: str) -> str:
    """Return the line of a traceback that names the error (the first after its last frame), with the user's line."""
    lines = text.strip().splitlines() or ["an error without a message"]
    frames = [index for index, line in enumerate(lines) if line.startswith('  File "')]
    after = lines[frames[-1] :] if frames else lines
    named = next((line for line in after if not line.startswith((" ", "+"))), lines[-1].strip())
    return named + raised_at(text)


def error_key(cell: str) -> str:
    """Return the key under which a chunk's results hold the traceback of the cell with this id."""
    return f"error:{cell}"


def encode_error(text: str) -> NDArray[np.uint8]:
    """Return a traceback as an array, so that it is stored with the results of its chunk."""
    return np.frombuffer(text.encode(), dtype=np.uint8)


def decode_error(array: NDArray[np.uint8]) -> str:
    """Return the traceback of an array that `encode_error` returned."""
    return array.tobytes().decode()
