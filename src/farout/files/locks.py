"""Locks between processes, also on network file systems.

A holder has the system's lock on the lock file, where the file system offers it, and a note beside it whose name tells
the process. Some network file systems offer no such locks, and some keep them from other machines in silence: there the
notes decide. A note counts as long as its process lives; where that cannot be told, since it is of another machine, as
long as it is touched, which the holder does every few seconds.
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

from farout.files.owners import Owner, gone
from farout.files.paths import NO_FOLLOW, present

UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}
"""Errors of file systems that have no locks."""
BEAT, SILENCE = 5.0, 60.0
"""Seconds between touches of a note, and without one after which a holder on another machine is taken for dead."""
_TRIES = 6


@contextmanager
def lock(path: Path, root: Path | None = None) -> Iterator[None]:
    """Hold a lock file, made where there is none; BlockingIOError where another process holds it.

    The lock goes with the process, however it ends.
    """
    present(path, root)
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o666), "r+b") as file:
        _lock(file)
        note = _claimed(path)
        ended = threading.Event()
        threading.Thread(target=_touch, args=(note, ended), daemon=True).start()
        try:
            yield
        finally:
            ended.set()
            note.unlink(missing_ok=True)


def _lock(file: BinaryIO) -> None:
    """Take the system's lock, where there is one."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        return
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise


def _claimed(path: Path) -> Path:
    """Return this process's note, the only one of a living process; BlockingIOError where there are others.

    Whoever comes writes first and looks then, so that of two at least one sees the other; both may, and try again.
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
    """Return the notes of other holders that may live; those of dead ones are removed."""
    now, living = note.lstat().st_mtime, []
    for other in path.parent.glob(f"{path.name}.*.*"):
        owner = Owner.parse(other.name.removeprefix(f"{path.name}.").rpartition(".")[0])
        if owner is None or other == note:
            continue
        if gone(other, owner, SILENCE, now):
            other.unlink(missing_ok=True)
        else:
            living.append(other)
    return living


def _touch(note: Path, ended: threading.Event) -> None:
    """Show that the holder lives, until it lets go; signals are left to the other threads."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while not ended.wait(BEAT):
        try:
            os.utime(note)
        except OSError:  # the folder may be gone
            return
