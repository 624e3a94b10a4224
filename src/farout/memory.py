"""Memory: sizes as text, the limit of a process, and errors that mean that it has run out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
"""Bytes per unit of memory."""
PROCESS = 512 << 20
"""Smallest memory of a worker process: torch, a small network, and a batch."""
SLACK = 64 << 20
"""Smallest memory beyond what a process holds when its limit begins."""
TEXTS = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "bad_alloc",
    "could not execute a primitive",
)
"""Parts of the messages of errors of torch and its libraries."""


class OutOfMemory(MemoryError):
    """Memory has run out even for a single image at a time."""


def parse_size(text: str | int) -> int:
    """Return the number of bytes of a size such as "4GiB". Raise for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?(|[KMGT]iB)", str(text))
    if match is None or not float(match[1]) > 0:
        raise ValueError(f"memory must be a number of bytes or a size such as 4GiB or 512MiB, got {text!r}")
    return int(float(match[1]) * UNITS[match[2]])


def size_text(count: float) -> str:
    """Return a number of bytes as text."""
    unit = next((name for name in ("TiB", "GiB", "MiB") if count >= UNITS[name]), "KiB")
    return f"{count / UNITS[unit]:.3g} {unit}"


def resident() -> int:
    """Return the memory that this process holds, in bytes; 0 where the system does not tell."""
    return _status("VmRSS")


def fit_workers(budget: int, workers: int) -> int:
    """Return the number of worker processes, at most `workers`, that a budget for all processes can hold.

    Raise if it cannot hold this process and one worker.
    """
    if workers < 1:
        return workers
    possible = (budget - resident()) // PROCESS
    if possible < 1:
        raise ValueError(
            f"memory: {size_text(budget)} cannot hold this process ({size_text(resident())}) and a worker process "
            f"({size_text(PROCESS)}): give at least {size_text(resident() + PROCESS)}, or --workers 0"
        )
    return min(workers, possible)


def worker_share(budget: int, workers: int) -> int:
    """Return the memory of each worker: equal parts of what this process leaves; without workers, all of it."""
    return (budget - resident()) // workers if workers else budget


def limit_memory(share: int) -> int | None:
    """Limit the memory of this process to `share` bytes: more raises MemoryError, before the system kills the process.

    Return the limit before it; None where the system has none.
    """
    data = _status("VmData")
    if not data:
        return None
    import resource

    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = data + max(share - resident(), SLACK)
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard < 0 else min(limit, hard), hard))
    return before


@contextmanager
def memory_limit(share: int | None) -> Iterator[None]:
    """Limit the memory of this process within the block."""
    before = None if share is None else limit_memory(share)
    try:
        yield
    finally:
        if before is not None:
            import resource

            resource.setrlimit(resource.RLIMIT_DATA, (before, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if an error says that memory has run out, on the host or on a GPU."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error).lower() for text in TEXTS)


def _status(key: str) -> int:
    """Return a number of this process's status in bytes; 0 where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    found = next((line for line in lines if line.startswith(f"{key}:")), "")
    return int(found.split()[1]) * 1024 if found else 0
