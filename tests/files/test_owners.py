"""The writer of a file is told by the file's name, and its death is proven or waited for."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from farout.files import atomic_file, is_temporary, remove_temporaries, temporary_path
from farout.files.owners import Owner, owner_ended

ELSEWHERE = "0" * 16


def ended() -> Owner:
    """A process of this machine that has ended."""
    code = "from farout.files.owners import Owner; print(Owner.current())"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    owner = Owner.parse(told.strip())
    assert owner is not None
    return owner


def test_this_process_lives_and_is_told_by_its_start() -> None:
    me = Owner.current()
    assert Owner.parse(str(me)) == me
    assert me.pid == os.getpid()
    assert me.dead is False
    assert me._replace(start=str(int(me.start) + 1)).dead is True, "its number was given to another process"
    assert me._replace(start="").dead is False
    assert me._replace(machine=ELSEWHERE).dead is None


def test_a_process_that_has_ended_is_dead() -> None:
    assert ended().dead is True


def test_a_zombie_is_dead() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert Owner.current()._replace(pid=process.pid, start="").dead is True
    process.wait()


@pytest.mark.parametrize("words", ["", "0123", "../x", f"{ELSEWHERE}_1", f"{ELSEWHERE}_x_1", "a" * 32])
def test_other_words_name_no_process(words: str) -> None:
    assert Owner.parse(words) is None


@pytest.mark.parametrize("owner", [Owner(ELSEWHERE, 1, "1"), None])
def test_who_cannot_be_asked_is_gone_after_a_while(tmp_path: Path, owner: Owner | None) -> None:
    path = tmp_path / "note"
    path.touch()
    assert not owner_ended(path, owner, patience=60)
    os.utime(path, (time.time() - 100,) * 2)
    assert owner_ended(path, owner, patience=60)
    assert not owner_ended(path, owner, patience=60, now=time.time() - 90)
    assert not owner_ended(path, Owner.current(), patience=60), "a living process may take its time"
    path.unlink()
    assert owner_ended(path, owner, patience=60)


def test_only_temporaries_whose_writers_are_gone_are_removed(tmp_path: Path) -> None:
    mine, dead, remote, old, without = (temporary_path(tmp_path / name) for name in "abcde")
    me = str(Owner.current())
    dead = dead.with_name(dead.name.replace(me, str(ended())))
    remote, old = (path.with_name(path.name.replace(me, f"{ELSEWHERE}_12_34")) for path in (remote, old))
    without = tmp_path / f".e-{'0' * 32}"
    for path in (mine, dead, remote, old, without):
        assert is_temporary(path)
        path.touch()
    os.utime(old, (time.time() - 25 * 3600,) * 2)
    remove_temporaries(tmp_path)
    assert set(tmp_path.iterdir()) == {mine, remote, without}
    os.utime(without, (time.time() - 25 * 3600,) * 2)
    remove_temporaries(tmp_path)
    assert set(tmp_path.iterdir()) == {mine, remote}
    remove_temporaries(tmp_path, locked=True)
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_tells_its_writer(tmp_path: Path) -> None:
    with atomic_file(tmp_path / "file") as temporary:
        assert f"-{Owner.current()}-" in temporary.name
        temporary.write_text("x")
    assert (tmp_path / "file").read_text() == "x"
