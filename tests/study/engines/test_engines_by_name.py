"""Engines by name: one of the user's computes what travels, and gives the scores that the local one gives."""

from __future__ import annotations

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
from farout.study.engines.performer import Performer

COUNTED = []


@farout.register
class Counting(Executor):
    \"\"\"Computes tasks in this process, and counts them.\"\"\"

    name, slots = "counting", 3

    def __init__(self, context):
        self.listener, self.performer = context.listener, Performer(context.store, context.device)
        self.tasks = deque()
        COUNTED.append((context.workers, 0))

    def submit(self, task):
        self.tasks.append(task)
        COUNTED[-1] = (COUNTED[-1][0], COUNTED[-1][1] + 1)

    def wait(self):
        task = self.tasks.popleft()
        if task.chunk is None:
            self.listener.finished(task.number, self.performer.finish(task.work, task.seconds))
        else:
            self.listener.computed(task.number, self.performer.compute(task.work, task.chunk, lambda images: None))

    def cancel(self, numbers):
        pass

    def close(self, stopped):
        self.tasks.clear()


class Brightness(farout.Detector):
    name = "brightness_of_images"

    def score(self, images):
        return images.double().mean((1, 2, 3))


farout.register(Brightness)
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


def test_an_unknown_engine_is_named_before_anything_is_computed(files: Path) -> None:
    with pytest.raises(UnknownName, match=r"unknown engine 'locl'. Did you mean 'local'\? Known: counting, local."):
        scores(files, "out", engine="locl")
    assert not (files / "out").exists()
