"""Compilation by numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile a function that releases the interpreter's lock; cached on disk, or per process if it cannot be.

    numba caches code by the date of the function's own file. So the function must not call compiled functions of other
    files or read their constants: after a change there, outdated code would be used.
    """
    try:
        return cast(F, njit(cache=True, nogil=True)(function))
    except RuntimeError:  # numba found no writable cache folder
        return cast(F, njit(nogil=True)(function))
