"""The time limit of work in this process: per cell, not for all that share a chunk."""

import os
import signal
import time
from types import SimpleNamespace

import pytest

from farout.study.engines import activity
from farout.study.engines.time_limit import OutOfTime, time_limit

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")


def cell(name):
    return SimpleNamespace(id=name, title=f"score by {name}", suspect=name)


def test_cells_that_are_each_quick_enough_are_not_stopped(tmp_path):
    with activity.recording(tmp_path / "note"), time_limit(0.5):
        for number in range(4):
            with activity.computing(cell(f"quick {number}")):
                time.sleep(0.2)


def test_the_cell_that_takes_too_long_is_named_also_where_it_catches_every_exception(tmp_path):
    with activity.recording(tmp_path / "note"), pytest.raises(OutOfTime), time_limit(0.3):  # noqa: PT012
        with activity.computing(cell("quick")):
            pass
        with activity.computing(cell("slow")):
            while True:
                try:
                    time.sleep(0.05)
                except Exception:
                    continue
    assert activity.interrupted() == "slow"


def test_a_note_tells_what_a_process_is_at_and_goes_with_it(tmp_path):
    note = tmp_path / "note"
    with activity.recording(note):
        with activity.computing(cell("outer")):
            with activity.computing(cell("inner")):
                assert activity.read(note)[1:] == (os.getpid(), "inner", "score by inner", "inner")
            assert activity.read(note).cell == "outer"
        assert activity.read(note).cell == ""
    assert not note.exists()
    assert activity.read(note) is None
