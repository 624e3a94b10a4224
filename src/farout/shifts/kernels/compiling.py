"""The way to machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """The function as machine code, kept on disk; where no folder can be written to, made anew in every process.

    numba keeps the code of a function by the date of its own file, so it must call no compiled function of another
    file and read no constant of one: when that file changed, the old code would go on.
    """
    try:
        return cast(F, njit(cache=True)(function))
    except RuntimeError:  # numba found no place for its files
        return cast(F, njit(function))
