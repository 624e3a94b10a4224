"""The status of a run that another process writes: figures of runs made by hand."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from farout.progress import Event, silent
from farout.study.engines import activity
from farout.study.engines.journal import PROGRESS, Journal, Progress
from farout.study.results import PLAN, Results
from farout.study.status import FINISHED, PLANNING, RUNNING, STOPPED, Failed, Part, Status, StatusReader
from farout.study.store import Store
from helpers.written_runs import INLIERS, NamedCell, Outcome, Subject, write_run

A, B = ("net", "0", "a"), ("net", "0", "b")
SCORES = np.arange(10.0)
MIXED: dict[Subject, dict[str, Outcome]] = {
    A: {INLIERS: SCORES, "near": SCORES, "far": None},
    B: {INLIERS: SCORES, "near": "ValueError: the camera is wet", "far": "ValueError: the camera is wet"},
}


def test_the_figures_of_a_stopped_run(tmp_path: Path) -> None:
    results = write_run(tmp_path, MIXED)
    status = StatusReader(tmp_path).read()
    assert status[:6] == ("written", "quick", STOPPED, 6, 3, 2)
    assert status.parts == [Part("clean", 6, 3, 2)]
    (failed,) = status.failures
    assert failed == Failed(failed.titles, "ValueError: the camera is wet")
    assert sorted(failed.titles) == ["score far by net: b", "score near by net: b"]
    assert (status.current, status.progress, status.seconds_left) == ([], None, None)
    counts = results.counts()
    assert (status.total, status.total - status.done, status.failed) == tuple(counts)


def test_a_complete_run_is_finished(tmp_path: Path) -> None:
    write_run(tmp_path, {A: {INLIERS: SCORES, "near": SCORES}})
    assert StatusReader(tmp_path).read()[2:6] == (FINISHED, 2, 2, 0)


def test_the_figures_of_a_running_run(tmp_path: Path) -> None:
    write_run(tmp_path, MIXED)
    store, cell = Store(tmp_path), NamedCell(A, "far")
    with store.lock(), activity.recording(store.running() / "run-1"), activity.computing(cell):
        journal = Journal(store.running() / PROGRESS, silent)
        journal(Event("score far", 40, 100))
        time.sleep(0.05)
        status = StatusReader(tmp_path).read()
        assert status[2:6] == (RUNNING, 6, 3, 2)
        assert [one.title for one in status.current] == ["score far by net"]
        assert 0.05 <= (status.current[0].seconds or 0) < 30
        assert status.progress == ("score far", 40, 100, 0.0)
        assert status.seconds_left is None  # no rate yet
    assert StatusReader(tmp_path).read().state == STOPPED


def test_the_time_left() -> None:
    progress = Progress("t", 400, 1000, 12.0)
    assert Status("n", "quick", RUNNING, progress=progress).seconds_left == pytest.approx(50.0)
    assert Status("n", "quick", RUNNING, progress=progress._replace(total=399)).seconds_left is None


def test_notes_of_a_killed_run_are_no_running_work(tmp_path: Path) -> None:
    write_run(tmp_path, MIXED)
    store = Store(tmp_path)
    with activity.recording(store.running() / "run-1"), activity.computing(NamedCell(A, "far")):
        shutil.copy(store.running() / "run-1", store.running() / "run-2")  # as after a kill: without a lock
    status = StatusReader(tmp_path).read()
    assert (status.state, status.current) == (STOPPED, [])
    (tmp_path / f".lock.{'0' * 16}_1_1.12345678").touch()  # another machine's, fresh
    running = StatusReader(tmp_path).read()
    assert (running.state, len(running.current)) == (RUNNING, 1)
    assert running.current[0].seconds is None  # by another machine's clock
    os.utime(tmp_path / f".lock.{'0' * 16}_1_1.12345678", (0, 0))  # silent for long
    assert StatusReader(tmp_path).read().state == STOPPED


def test_new_results_and_a_new_plan_are_seen(tmp_path: Path) -> None:
    write_run(tmp_path, MIXED)
    reader = StatusReader(tmp_path)
    assert reader.read().done == 3
    Store(tmp_path).write(NamedCell(A, "far").id, {}, {})
    assert reader.read().done == 4
    write_run(tmp_path, {A: {INLIERS: SCORES}})
    assert reader.read()[2:5] == (FINISHED, 1, 1)


def test_what_is_being_written_does_not_count(tmp_path: Path) -> None:
    write_run(tmp_path, MIXED)
    far = NamedCell(A, "far").id
    (tmp_path / "cells" / f".{far}-{'0' * 16}_1_1-{'a' * 32}").mkdir()
    (tmp_path / "failures" / f"{far}.json").write_text('{"traceback": "x"')
    assert StatusReader(tmp_path).read()[3:6] == (6, 3, 2)


def test_planning_has_a_lock_and_no_plan(tmp_path: Path) -> None:
    store = Store(tmp_path).open()
    with pytest.raises(FileNotFoundError, match=r"holds no run \(no plan.json\)"):
        StatusReader(tmp_path).read()
    with store.lock():
        assert StatusReader(tmp_path).read() == Status(tmp_path.name, "", PLANNING)


def test_a_folder_that_vanishes_is_an_error_and_comes_back(tmp_path: Path) -> None:
    write_run(tmp_path / "run", MIXED)
    reader = StatusReader(tmp_path / "run")
    reader.read()
    (tmp_path / "run").rename(tmp_path / "away")
    with pytest.raises(FileNotFoundError, match="holds no run"):
        reader.read()
    (tmp_path / "away").rename(tmp_path / "run")
    assert reader.read().done == 3


def test_reading_changes_nothing(tmp_path: Path) -> None:
    write_run(tmp_path, MIXED)
    (tmp_path / f".lock.{'0' * 16}_1_1.12345678").touch()
    os.utime(tmp_path / f".lock.{'0' * 16}_1_1.12345678", (0, 0))  # a dead holder's note stays where it is
    shutil.rmtree(tmp_path / "running", ignore_errors=True)
    before = sorted((path, path.lstat().st_mtime_ns) for path in tmp_path.rglob("*"))
    StatusReader(tmp_path).read()
    assert sorted((path, path.lstat().st_mtime_ns) for path in tmp_path.rglob("*")) == before


def test_links_are_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "run", MIXED)
    (tmp_path / "run" / "cells").rename(tmp_path / "cells")
    (tmp_path / "run" / "cells").symlink_to(tmp_path / "cells")
    with pytest.raises(OSError, match="symbolic link"):
        StatusReader(tmp_path / "run").read()


def test_a_damaged_plan_is_an_error(tmp_path: Path) -> None:
    write_run(tmp_path, MIXED)
    (tmp_path / PLAN).write_text("{}")
    with pytest.raises(ValueError, match="damaged"):
        StatusReader(tmp_path).read()
    with pytest.raises(ValueError, match="damaged"):
        Results(tmp_path)
