"""Kills: a study that is killed at random moments and continued equals one that was left alone, byte for byte."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from farout.faults import Bench, Verdict
from farout.faults.bench import Ended
from farout.faults.kills import _Killer, kills

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
STUDY = """
inliers:
  train: {name: toy, split: train, limit: 300}
  val: {name: toy, split: val, limit: 100}
  test: {name: toy, limit: 300}
outliers: [{name: toy, split: test/ood_cls, limit: 300}, {name: noise, limit: 300}]
networks: [{name: lenet, train: {epochs: 3, lr: 0.02}}]
detectors: [msp, entropy, mls, ebo, knn, mds, slow]
"""
SLOW = """
import time
import farout


@farout.register
class Slow(farout.Detector):
    name = "slow"

    def score(self, images):
        time.sleep(0.2)
        return images.mean((1, 2, 3))
"""
FORGETFUL = """
import os
import farout


@farout.register
class Forgetful(farout.Detector):
    name = "slow"

    def score(self, images):
        return images.mean((1, 2, 3)) + os.getpid()
"""


def bench_of(folder: Path, plugin: str, study: str = STUDY, workers: int = 2) -> Bench:
    (folder / "study.yaml").write_text(study)
    (folder / "own.py").write_text(plugin)
    bench = Bench(folder, folder / "study.yaml", (folder / "own.py",), workers)
    bench.run_reference()
    return bench


@pytest.mark.parametrize("count", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_killed_and_continued_gives_the_same_bytes(tmp_path: Path, count: int) -> None:
    bench = bench_of(tmp_path, SLOW)
    assert len(bench.expected) == 1 + 6 + 2 * 7 * 3 + 1  # weights, fitted detectors, scores and examples, classes
    verdict = kills(bench, count, random.Random(0), lambda done: None)
    assert verdict.problems == []
    assert verdict.count == sum(verdict.hit.values()) == count
    if count > 1:
        assert len({what.split(", ")[1] for what in verdict.hit}) >= 3, "the kills hit too few phases"


def test_a_detector_that_gives_other_scores_in_another_process_is_found_out(tmp_path: Path) -> None:
    study = "inliers: {test: {name: toy, limit: 70}}\noutliers: [{name: noise, limit: 8}]\ndetectors: [slow]"
    bench = bench_of(tmp_path, FORGETFUL, study, workers=0)
    verdict = kills(bench, 1, random.Random(0), lambda done: None)
    assert any("scores.parquet differs from" in problem for problem in verdict.problems)


@pytest.mark.parametrize(
    ("ended", "problem"),
    [
        (Ended(0, ""), None),
        (Ended(-9, "Traceback (most recent call last)"), None),
        (Ended(1, "failed: slow: WorkerDied"), None),
        (Ended(1, "nothing"), "exit code 1"),
        (Ended(2, "error: lost"), "exit code 2"),
        (Ended(0, "Traceback (most recent call last)"), "traceback"),
    ],
)
def test_how_a_run_may_end(ended: Ended, problem: str | None) -> None:
    verdict = Verdict("kill")
    _Killer(verdict, 1, random.Random(0), lambda done: None).judge(Path("run"), ended)
    assert [problem in said for said in verdict.problems] == ([True] if problem else [])


def test_a_finished_result_that_is_computed_again_is_lost_work(bench: Bench) -> None:
    killer = _Killer(verdict := Verdict("kill"), 1, random.Random(0), lambda done: None)
    killer.kept = {"none": 1}
    killer.judge_kept(bench.reference)
    assert verdict.problems == [f"{bench.reference}: 1 finished results were computed again, as none"]
