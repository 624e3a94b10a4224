"""Locks between processes, also on network file systems.

A holder takes the system's lock on the lock file, if the file system has locks, and writes a note beside it whose name
identifies the process. Some network file systems have no locks, and some do not enforce them between machines: there,
the notes decide. A note is valid as long as its process lives. For a process on another machine, which cannot be
checked, a note is valid as long as its holder touches it, which it does every few seconds.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from farout.files.owners import Owner, owner_ended
from farout.files.paths import NO_FOLLOW, has_file

UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}
"""Error numbers of file systems that have no locks."""
BEAT, SILENCE = 5.0, 60.0
"""Seconds between two touches of a note, and seconds without one after which a holder on another machine counts as
dead."""
_TRIES = 6


@contextmanager
def lock(path: Path, root: Path | None = None) -> Iterator[None]:
    """Hold a lock file, which is created if needed. Raise BlockingIOError if another process holds it.

    The lock is released when the process ends, however it ends.
    """
    has_file(path, root)
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o666), "r+b") as file:
        _lock(file)
        note = _claim(path)
        ended = threading.Event()
        threading.Thread(target=_keep_touching, args=(note, ended), daemon=True).start()
        try:
            yield
        finally:
            ended.set()
            note.unlink(missing_ok=True)


def holders(path: Path) -> list[Owner]:
    """Return the processes that hold a lock file, found only by reading: nothing is written or removed."""
    return [owner for note, owner in _notes(path) if not owner_ended(note, owner, SILENCE)]


def _notes(path: Path) -> Iterator[tuple[Path, Owner]]:
    """Yield the notes beside a lock file with the processes that wrote them."""
    for note in path.parent.glob(f"{path.name}.*.*"):
        if owner := Owner.parse(note.name.removeprefix(f"{path.name}.").rpartition(".")[0]):
            yield note, owner


def _lock(file: BinaryIO) -> None:
    """Take the system's lock, if the file system has locks."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        return
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise


def _claim(path: Path) -> Path:
    """Write this process's note and return it. Raise BlockingIOError if another living process has one.

    Every process first writes its note and then looks for others, so that of two at least one sees the other. If both
    do, both try again.
    """
    for attempt in range(_TRIES):
        note = path.with_name(f"{path.name}.{Owner.current()}.{uuid.uuid4().hex[:8]}")
        note.touch(exist_ok=False)
        if not _others(path, note):
            return note
        note.unlink()
        time.sleep(os.urandom(1)[0] / 255 * 0.01 * 2**attempt)
    raise BlockingIOError(errno.EWOULDBLOCK, "another process holds the lock", str(path))


def _others(path: Path, note: Path) -> list[Path]:
    """Return the notes of other holders that may be alive; remove those of dead ones."""
    now, living = note.lstat().st_mtime, []
    for other, owner in _notes(path):
        if other == note:
            continue
        if owner_ended(other, owner, SILENCE, now):
            other.unlink(missing_ok=True)
        else:
            living.append(other)
    return living


def _keep_touching(note: Path, ended: threading.Event) -> None:
    """Touch the note until the lock is released; signals are left to the other threads."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while not ended.wait(BEAT):
        try:
            os.utime(note)
        except OSError:  # the folder may be gone
            return
