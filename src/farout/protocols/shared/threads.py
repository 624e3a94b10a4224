"""Lines of tables computed in threads: numpy releases the interpreter's lock while it draws resamples and sorts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

MOST = 8
"""Largest number of threads; each needs tens of megabytes for its resamples."""
Item = TypeVar("Item")
Line = TypeVar("Line")


def in_threads(function: Callable[[Item], Line], items: Iterable[Item]) -> list[Line]:
    """Return the function's value of every item, in order, computed on all cores."""
    with ThreadPoolExecutor(min(MOST, os.cpu_count() or 1)) as pool:
        return list(pool.map(function, items))
