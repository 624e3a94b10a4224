"""Memory for long tables: a budget in bytes, beyond which arrays are memory-mapped files without a name."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

IN_MEMORY = 1 << 30
"""Bytes of all arrays together that stay in memory."""
DIRTY = 1 << 26
"""Bytes written to files before their pages leave the process."""


class Memory:
    """Memory for arrays that are filled once and then read: files hold what does not fit into the budget.

    A file is deleted with its array, or when the process ends, however it ends.
    """

    def __init__(self, folder: Callable[[], Path] | None = None, limit: int | None = None) -> None:
        """folder: called when the first file is needed; by default a folder for large temporary files."""
        self._folder, self._left = folder or large_files, IN_MEMORY if limit is None else limit
        self._maps: list[mmap.mmap] = []
        self._written = 0

    def allocate(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Return a tensor to be filled."""
        size = int(np.prod(shape)) * dtype.itemsize
        if size <= self._left:
            self._left -= size
            return torch.empty(shape, dtype=dtype)
        with tempfile.TemporaryFile(dir=self._folder()) as file:  # the map outlives the handle
            _reserve(file.fileno(), size)
            self._maps.append(mmap.mmap(file.fileno(), size))
        return torch.frombuffer(self._maps[-1], dtype=dtype).view(shape)

    def written(self, size: int) -> None:
        """Count bytes that were written; release pages once they are many."""
        self._written += size
        if self._written >= DIRTY:
            self.release()

    def release(self) -> None:
        """Take the pages of files out of the process; the system keeps them as long as it has memory to spare."""
        self._written = 0
        for one in self._maps if hasattr(mmap, "MADV_DONTNEED") else ():
            one.madvise(mmap.MADV_DONTNEED)


def large_files() -> Path:
    """Return the folder for large temporary files: `$TMPDIR`, else /var/tmp, as /tmp may lie in memory."""
    named = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    return Path(tempfile.gettempdir() if named or not os.access("/var/tmp", os.W_OK) else "/var/tmp")


def _reserve(file: int, size: int) -> None:
    """Give a file its size; a full disk is an error here, and not a crash when the map is written."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
    else:
        os.ftruncate(file, size)
