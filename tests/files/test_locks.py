"""Locks hold with and without the system's locks, and go with their process."""

from __future__ import annotations

import errno
import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from farout.files import lock
from farout.files.owners import Owner

SPAWN = multiprocessing.get_context("spawn")


def without_locks(*_: Any) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


def silent(*_: Any) -> None:
    """Locks that are kept from other machines."""


FLOCKS = {"locks": None, "none": without_locks, "silent": silent}


def use(kind: str) -> None:
    import fcntl

    if FLOCKS[kind] is not None:
        fcntl.flock = FLOCKS[kind]  # type: ignore[assignment]


def hold(path: str, kind: str, held: Any) -> None:
    use(kind)
    with lock(Path(path)):
        held.set()
        time.sleep(60)


def contend(path: str, kind: str, log: str, rounds: int) -> None:
    """Take the lock, look whether somebody else is inside, and let go, many times."""
    use(kind)
    inside, taken = Path(f"{path}.inside"), 0
    while taken < rounds:
        try:
            with lock(Path(path)):
                inside.touch(exist_ok=False)  # an error where another process is inside
                time.sleep(0.002)
                inside.unlink()
                taken += 1
        except BlockingIOError:
            pass
    Path(log).write_text(str(taken))


@contextmanager
def holder(path: Path, kind: str) -> Iterator[Any]:
    """A process that holds the lock."""
    held = SPAWN.Event()
    process = SPAWN.Process(target=hold, args=(str(path), kind, held))
    process.start()
    try:
        assert held.wait(60)
        yield process
    finally:
        process.kill()
        process.join()


@pytest.fixture(params=FLOCKS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if FLOCKS[request.param] is not None:
        monkeypatch.setattr("fcntl.flock", FLOCKS[request.param])
    return str(request.param)


def test_one_process_at_a_time_until_it_lets_go_or_dies(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ".lock"
    with holder(path, kind) as process:
        with pytest.raises(BlockingIOError), lock(path):
            pass
        process.kill()
        process.join()
        with lock(path):
            assert len(list(tmp_path.iterdir())) == 2, "the lock file and one note"
    with lock(path), pytest.raises(BlockingIOError), lock(path):
        pass
    assert [file.name for file in tmp_path.iterdir()] == [".lock"]


def test_two_processes_that_contend_are_never_inside_together(tmp_path: Path) -> None:
    logs = [tmp_path / "first", tmp_path / "second"]
    others = [SPAWN.Process(target=contend, args=(str(tmp_path / "lock"), "none", str(log), 15)) for log in logs]
    for process in others:
        process.start()
    for process in others:
        process.join(120)
    assert [log.read_text() for log in logs] == ["15", "15"]


def test_a_holder_on_another_machine_counts_while_it_shows_life(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "lock"
    note = tmp_path / f"lock.{Owner('0' * 16, 12, '34')}.01234567"
    note.touch()
    with pytest.raises(BlockingIOError), lock(path):
        pass
    assert note.exists()
    os.utime(note, (time.time() - 61,) * 2)
    with lock(path):
        assert not note.exists()


def test_a_holder_shows_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("farout.files.locks.BEAT", 0.01)
    with lock(tmp_path / "lock"):
        (note,) = tmp_path.glob("lock.*")
        os.utime(note, (0, 0))
        for _ in range(1000):
            if note.stat().st_mtime > 0:
                break
            time.sleep(0.01)
        assert note.stat().st_mtime > time.time() - 100


def test_other_errors_of_the_system_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("fcntl.flock", broken)
    with pytest.raises(OSError, match="Input/output error"), lock(tmp_path / "lock"):
        pass
