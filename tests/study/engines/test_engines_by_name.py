"""Engines by name: one of the user's computes what travels, and gives the scores that the local one gives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farout
from farout.plugins import load_plugin
from farout.registry import UnknownName
from farout.study.results import Results

PLUGIN = """
import farout
from collections import deque
from farout.study.engines.executor import Executor

COUNTED = []


@farout.register
class Counting(Executor):
    \"\"\"Computes tasks in this process, and counts them.\"\"\"

    name, slots = "counting", 3

    def __init__(self, context):
        super().__init__(context)
        self.tasks = deque()
        COUNTED.append((context.workers, 0))

    def submit(self, task):
        self.tasks.append(task)
        COUNTED[-1] = (COUNTED[-1][0], COUNTED[-1][1] + 1)

    def wait(self, seconds):
        self.perform(self.tasks.popleft())

    def cancel(self, numbers):
        pass

    def close(self, stopped):
        self.tasks.clear()


class Brightness(farout.Detector):
    name = "brightness_of_images"

    def score(self, images):
        return images.double().mean((1, 2, 3))


farout.register(Brightness)


@farout.register
class Stubborn(farout.Detector):
    name = "stubborn"

    def fit(self, train):
        raise RuntimeError("no fit today")

    def score(self, images):
        return images.double().mean((1, 2, 3))
"""
STUDY = """
inliers: {test: {name: toy, limit: 100}}
outliers: [{name: noise, limit: 70}]
detectors: [brightness_of_images]
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "engine.py").write_text(PLUGIN)
    (tmp_path / "study.yaml").write_text(STUDY)
    return tmp_path


def scores(files: Path, name: str, **options: Any) -> list[np.ndarray]:
    result = farout.run(files / "study.yaml", files / name, plugins=(str(files / "engine.py"),), **options)
    assert not result.outcome.failed
    results = Results(files / name)
    return [results.scores(row) for row in results.done("clean")]


def test_an_engine_of_the_users_computes_all_that_travels(files: Path) -> None:
    here, there = scores(files, "here"), scores(files, "there", engine="counting", workers=2)
    assert len(here) == len(there) == 2
    assert all(np.array_equal(a, b) for a, b in zip(here, there, strict=True))
    # two sets of two chunks each (64 images at most) and their records
    assert load_plugin(files / "engine.py").COUNTED == [(2, 6)]


def test_a_failing_detector_does_not_end_the_run_of_an_engine_of_the_users(files: Path) -> None:
    study = STUDY.replace("[brightness_of_images]", "[stubborn, brightness_of_images]").replace(
        "{test:", "{train: toy, test:"
    )
    (files / "study.yaml").write_text(study)
    result = farout.run(files / "study.yaml", files / "out", plugins=(str(files / "engine.py"),), engine="counting")
    assert result.outcome.failed
    assert all(
        reason.startswith("stubborn: ") and "no fit today" in reason for reason in result.outcome.failed.values()
    )
    assert list(result.table()["detector"]) == ["brightness_of_images"]


def test_a_module_in_the_folder_of_engines_needs_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").write_text(PLUGIN)
    program = (
        "import sys, farout.study.engines as engines; engines.__path__.append(sys.argv[1]); "
        "from farout.registry import registry_of; print(*registry_of('engine'))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["counting", "local", "ray", "slurm"]


def test_an_unknown_engine_is_named_before_anything_is_computed(files: Path) -> None:
    known = "counting, local, ray, slurm"
    with pytest.raises(UnknownName, match=rf"unknown engine 'locl'. Did you mean 'local'\? Known: {known}."):
        scores(files, "out", engine="locl")
    assert not (files / "out").exists()
