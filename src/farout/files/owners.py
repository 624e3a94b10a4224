"""Owners of files: the process that writes a temporary file or holds a lock, and the test whether it is dead."""

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
    """Unique identity of a process; its id alone is not unique, since ids are reused and differ between machines."""

    machine: str
    """Scope of the process id: a hash of the boot id and of the process namespace."""
    pid: int
    start: str
    """Start time in ticks since the boot; empty if unknown."""

    @classmethod
    def current(cls) -> Owner:
        """Return this process."""
        return cls(_machine(), os.getpid(), _start(os.getpid()) or "")

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        """Return the process from its text form; None for any other text."""
        match = re.fullmatch(r"([0-9a-f]{16})_(\d{1,10})_(\d{0,20})", text)
        return cls(match[1], int(match[2]), match[3]) if match else None

    def __str__(self) -> str:
        return f"{self.machine}_{self.pid}_{self.start}"

    @property
    def dead(self) -> bool | None:
        """True if the process has ended, False if not, None if unknown, since it is on another machine."""
        if self.machine != _machine():
            return None
        start = _start(self.pid)
        return start is None or bool(start and self.start and start != self.start)


def owner_ended(path: Path, owner: Owner | None, patience: float, now: float | None = None) -> bool:
    """Return True if the owner of a file is dead, or, if that is unknown, the file was not touched for `patience` s.

    now: time by the clock of the file system; this machine's by default.
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
        facts = [Path("/proc/sys/kernel/random/boot_id").read_text().strip(), str(Path("/proc/self/ns/pid").readlink())]
    except OSError:  # not Linux
        facts = [socket.gethostname(), str(uuid.getnode())]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _start(pid: int) -> str | None:
    """Return the start time of a process; None if there is no such process, empty if the time is unknown."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if state in "ZX" else rest[18]  # zombie processes count as ended
    except (OSError, ValueError):
        pass
    if os.name == "nt":  # on Windows, os.kill would end the process
        return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass
    return ""
