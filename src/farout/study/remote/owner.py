"""Lock of a run at an address: one object, which its holder writes again every few seconds.

Where the file system can create an object only if there is none, two runs cannot both create it. Elsewhere both may;
then each reads the object again after a moment, and only the run that finds its own goes on.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from farout.files.owners import Owner
from farout.study.remote.address import Remote, RemoteError
from farout.study.remote.layout import LOCK
from farout.study.store import StoreError

BEAT, SILENCE = 15.0, 90.0
"""Seconds between two writes of the lock, and seconds without one after which its holder counts as dead."""
SETTLE = 1.0
"""Seconds after which a new lock is read again."""
_TRIES = 3


class RemoteLock:
    """Lock of this run at an address."""

    def __init__(self, remote: Remote) -> None:
        self._remote, self._run, self._beats = remote, uuid.uuid4().hex, 0
        self.lost = False
        """True if another run has taken the address over."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock within the block. Raise `StoreError` if another run holds it."""
        self._acquire()
        ended = threading.Event()
        beating = threading.Thread(target=self._keep_beating, args=(ended,), daemon=True)
        beating.start()
        try:
            yield
        finally:
            ended.set()
            beating.join()
            with suppress(RemoteError):
                if self._is_own():
                    self._remote.remove(LOCK)

    def beat(self) -> None:
        """Write the lock again, or find that it is lost."""
        self.lost = self.lost or not self._is_own()
        if not self.lost:
            self._remote.write(LOCK, self._content())

    def _keep_beating(self, ended: threading.Event) -> None:
        while not ended.wait(BEAT):
            with suppress(OSError):  # the next beat may succeed
                self.beat()

    def _acquire(self) -> None:
        for _ in range(_TRIES):
            self._remove_abandoned()
            try:
                self._remote.create(LOCK, self._content())
            except FileExistsError:
                continue
            time.sleep(SETTLE)
            if self._is_own():
                return
        raise _occupied(self._remote, read_lock(self._remote) or {})

    def _remove_abandoned(self) -> None:
        """Remove the lock of a run that has ended without removing it; raise if its holder may be alive."""
        found = read_lock(self._remote)
        if found is None:
            return
        owner = Owner.parse(str(found.get("owner")))
        if owner is not None and owner.dead is False:
            raise _occupied(self._remote, found)
        if owner is None or owner.dead is None:
            if abs(_age(found)) < SILENCE:
                raise _occupied(self._remote, found)
            time.sleep(2 * BEAT)  # its clock may differ from this one's: does it still write?
            if read_lock(self._remote) != found:
                raise _occupied(self._remote, found)
        self._remote.remove(LOCK)

    def _is_own(self) -> bool:
        return (read_lock(self._remote) or {}).get("run") == self._run

    def _content(self) -> bytes:
        self._beats += 1
        facts = {"run": self._run, "owner": str(Owner.current()), "beat": self._beats, "time": time.time()}
        return json.dumps(facts).encode()


def read_lock(remote: Remote) -> dict[str, Any] | None:
    """Return the content of the lock, empty if it cannot be read; None if there is none."""
    try:
        found = json.loads(remote.read(LOCK))
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def is_active(remote: Remote) -> bool:
    """Return True if a run has written the lock lately."""
    found = read_lock(remote)
    return found is not None and abs(_age(found)) < SILENCE


def _age(found: dict[str, Any]) -> float:
    """Return the seconds since a lock was written, infinite if unknown."""
    written = found.get("time")
    return time.time() - written if isinstance(written, int | float) else float("inf")


def _occupied(remote: Remote, found: dict[str, Any]) -> StoreError:
    age = _age(found)
    active = f"; it was last active {max(0.0, age):.0f} s ago" if age < SILENCE else ""
    return StoreError(
        f"another run is writing to {remote}{active}; wait for it or choose another address with --out. If it was "
        f"killed on another machine, the same command works {SILENCE:.0f} s after that"
    )
