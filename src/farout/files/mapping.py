"""Large arrays part by part, with the memory of mapped files given back after each part."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 26


def blocks(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield an array in parts of about 64 MB, cut along its first axis."""
    for part in np.array_split(array, max(1, array.nbytes // _BLOCK)) if array.ndim else [array]:
        yield part
        release(array)


def release(array: NDArray[Any]) -> None:
    """Give the pages of a memory-mapped file that were read back to the system; do nothing for other arrays.

    They are read again when they are needed. Without this, a process that reads a whole file holds the whole file, as
    far as the limits of a job on a cluster can tell.
    """
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        owner.madvise(mmap.MADV_DONTNEED)
