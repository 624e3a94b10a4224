"""The live view of a run: its status, its tables, and what it does when the folder changes or vanishes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farout
from farout.api import view
from farout.api.view import RunView, Viewing
from farout.progress import Event
from farout.study.store import Store
from helpers.command_line import refused
from helpers.written_runs import INLIERS, NamedCell, Outcome, Subject, lenet_weights, write_run

A, B = ("net", "0", "a"), ("net", "0", "b")
OUTCOMES: dict[Subject, dict[str, Outcome]] = {
    A: {INLIERS: np.arange(10.0), "near": np.arange(5, 15.0)},
    B: {INLIERS: np.arange(10.0), "near": None},
}


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "READ_SECONDS", 0.02)


@contextmanager
def viewing(folder: Path) -> Iterator[str]:
    """The address of a view that is served during the block."""
    one = Viewing(folder)
    thread = threading.Thread(target=one.serve, daemon=True)
    thread.start()
    try:
        yield one.url
    finally:
        one.close()
        thread.join()


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


def status(url: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(get(url + "status.json"))
    return found


def wait_for(url: str, fits: Callable[[dict[str, Any]], bool], seconds: float = 60) -> dict[str, Any]:
    """The first status that fits."""
    end = time.monotonic() + seconds
    while not fits(found := status(url)):
        assert time.monotonic() < end, found
        time.sleep(0.02)
    return found


def test_status_and_tables_of_a_run_made_by_hand(tmp_path: Path) -> None:
    write_run(tmp_path, OUTCOMES)
    with viewing(tmp_path) as url:
        found = wait_for(url, lambda one: one["tables"] > 0)
        assert found | {"tables": 0} == {
            "name": "written", "budget": "quick", "state": "stopped", "total": 4, "done": 3, "failed": 0,
            "parts": [{"name": "clean", "total": 4, "done": 3, "failed": 0}], "current": [], "failures": [],
            "progress": None, "images": None, "left": None, "tables": 0, "problem": "",
        }  # fmt: skip
        assert "0.875" in get(url + "tables")  # the AUROC of 0…9 against 5…14
        assert "<h1><bdi>written</bdi></h1>" in get(url + "report")


def test_tables_fill_and_a_vanished_folder_leaves_the_last_status(tmp_path: Path) -> None:
    write_run(tmp_path / "run", OUTCOMES)
    with viewing(tmp_path / "run") as url:
        first = wait_for(url, lambda one: one["tables"] > 0)["tables"]
        before = get(url + "tables")
        assert ">b<" not in before
        write_run(tmp_path / "run", {**OUTCOMES, B: {INLIERS: np.arange(10.0), "near": np.arange(10.0)}})
        assert wait_for(url, lambda one: one["tables"] > first)["done"] == 4
        after = get(url + "tables")
        assert ">b<" in after
        assert "0.500" in after
        (tmp_path / "run").rename(tmp_path / "away")
        gone = wait_for(url, lambda one: bool(one["problem"]))
        assert "holds no run" in gone["problem"]
        assert (gone["done"], gone["total"]) == (4, 4)
        assert get(url + "tables") == after
        (tmp_path / "away").rename(tmp_path / "run")
        assert wait_for(url, lambda one: not one["problem"])["state"] == "finished"


def test_nothing_is_written(tmp_path: Path) -> None:
    write_run(tmp_path, OUTCOMES)
    before = sorted((path, path.lstat().st_mtime_ns) for path in tmp_path.rglob("*"))
    with viewing(tmp_path) as url:
        wait_for(url, lambda one: one["tables"] > 0)
        get(url + "report")
    assert sorted((path, path.lstat().st_mtime_ns) for path in tmp_path.rglob("*")) == before


def test_tables_are_computed_only_while_somebody_looks(tmp_path: Path) -> None:
    write_run(tmp_path, OUTCOMES)
    run, ended = RunView(tmp_path), threading.Event()
    thread = threading.Thread(target=run.compute_tables, args=(ended,))
    thread.start()
    time.sleep(0.3)
    assert run.status()["tables"] == 0  # this is the first look
    end = time.monotonic() + 60
    while not run.status()["tables"] and time.monotonic() < end:
        time.sleep(0.02)
    ended.set()
    thread.join()
    assert run.status()["tables"] > 0


def test_hostile_names_are_text(tmp_path: Path) -> None:
    name = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'"
    hostile: dict[Subject, dict[str, Outcome]] = {
        (name, "0", name): {INLIERS: np.arange(9.0), name: np.arange(9.0), f"{name}2": f"ValueError: {name}"}
    }
    write_run(tmp_path, hostile)
    with viewing(tmp_path) as url:
        found = wait_for(url, lambda one: one["tables"] > 0)
        tables = get(url + "tables")
    assert found["failures"][0]["reason"] == f"ValueError: {name}"  # the page's script shows it as text
    assert "<script" not in tables
    assert "<img" not in tables
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;" in tables


def test_a_real_run_while_it_runs(tmp_path: Path) -> None:
    lenet_weights(tmp_path)
    study = tmp_path / "study.yaml"
    study.write_text(
        json.dumps(
            {
                "inliers": {
                    "train": {"name": "toy", "split": "val", "limit": 100},
                    "test": {"name": "toy", "limit": 80},
                },
                "outliers": [{"name": "noise", "limit": 70}],
                "networks": [{"name": "lenet", "weights": "lenet.safetensors"}],
                "detectors": ["msp", "knn"],
                "budget": "quick",
            }
        )
    )
    with Store(tmp_path / "out").open().lock(), viewing(tmp_path / "out") as url:
        assert status(url)["state"] == "planning"
    seen: list[dict[str, Any]] = []
    events: list[Event] = []

    def watch(event: Event) -> None:
        events.append(event)
        seen.append(RunView(tmp_path / "out").status())

    result = farout.run(study, tmp_path / "out", progress=watch)
    assert {one["state"] for one in seen} == {"running"}
    assert seen[0]["done"] == 0
    assert [one["done"] for one in seen] == sorted(one["done"] for one in seen)
    last = RunView(tmp_path / "out").status()
    assert (last["state"], last["done"], last["total"]) == ("finished", len(result.outcome.done), 7)
    assert seen[-1]["images"]["total"] == sum(event.total for event in events) > 0
    assert not list((tmp_path / "out" / "running").iterdir())


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    assert "holds no run" in refused("view", tmp_path)
    assert "holds no run" in refused("view", tmp_path / "none")


@pytest.mark.slow
def test_ctrl_c_ends_it_quietly(tmp_path: Path) -> None:
    write_run(tmp_path, OUTCOMES)
    command = [sys.executable, "-m", "farout", "view", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = line.rsplit(maxsplit=1)[-1]
        assert url.startswith("http://127.0.0.1:")
        assert status(url + "")["done"] == 3
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")


def test_cells_by_name_are_those_of_the_store(tmp_path: Path) -> None:
    write_run(tmp_path, OUTCOMES)
    assert RunView(tmp_path).status()["done"] == sum(
        Store(tmp_path).has(NamedCell(subject, images).id) for subject, sets in OUTCOMES.items() for images in sets
    )
