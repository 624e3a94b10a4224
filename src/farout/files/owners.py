"""Owners of files: the process that writes a temporary or holds a lock, and the proof that it is dead."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import time
import uuid
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Owner(NamedTuple):
    """A process, told from all others: a process id is used again, and is another one on another machine."""

    machine: str
    """Where and since when process ids count: a hash of the boot and of the namespace of processes."""
    pid: int
    start: str
    """When it was started, in ticks since the boot; empty where the system does not tell."""

    @classmethod
    def current(cls) -> Owner:
        """Return this process."""
        return cls(_machine(), os.getpid(), _start(os.getpid()) or "")

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        """Return the process that `str` has put into words; None for other words."""
        match = re.fullmatch(r"([0-9a-f]{16})_(\d{1,10})_(\d{0,20})", text)
        return cls(match[1], int(match[2]), match[3]) if match else None

    def __str__(self) -> str:
        return f"{self.machine}_{self.pid}_{self.start}"

    @property
    def dead(self) -> bool | None:
        """Return True where the process has ended, False where it has not; None where that cannot be told from here."""
        if self.machine != _machine():
            return None
        start = _start(self.pid)
        return start is None or bool(start and self.start and start != self.start)


def gone(path: Path, owner: Owner | None, patience: float, now: float | None = None) -> bool:
    """Return True where the owner of a file is dead; one that cannot be asked, where it was not touched for so long.

    now: by the clock that stamps the files; this machine's by default.
    """
    dead = None if owner is None else owner.dead
    if dead is not None:
        return dead
    try:
        return (time.time() if now is None else now) - path.lstat().st_mtime > patience
    except FileNotFoundError:
        return True


@cache
def _machine() -> str:
    try:
        known = [Path("/proc/sys/kernel/random/boot_id").read_text().strip(), str(Path("/proc/self/ns/pid").readlink())]
    except OSError:  # no Linux
        known = [socket.gethostname(), str(uuid.getnode())]
    return hashlib.sha256("\n".join(known).encode()).hexdigest()[:16]


def _start(pid: int) -> str | None:
    """Return when a process was started; None where there is none, empty where the system does not tell."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if state in "ZX" else rest[18]  # a zombie writes nothing more
    except (OSError, ValueError):
        pass
    if os.name == "nt":  # there os.kill ends the process
        return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass
    return ""
