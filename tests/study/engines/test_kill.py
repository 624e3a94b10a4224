"""A study killed with SIGKILL at ten random moments and continued equals one that was left alone, byte for byte."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from farout.study.store import Store

STUDY = """
inliers:
  train: {name: toy, split: train, limit: 300}
  val: {name: toy, split: val, limit: 100}
  test: {name: toy, limit: 300}
outliers: [{name: toy, split: test/ood_cls, limit: 300}, {name: noise, limit: 300}]
networks: [{name: lenet, train: {epochs: 3, lr: 0.02}}]
detectors: [msp, entropy, mls, ebo, knn, mds, slow]
"""

PLUGIN = """
import time
import farout


@farout.register
class Slow(farout.Detector):
    name = "slow"

    def score(self, images):
        time.sleep(0.4)
        return images.mean((1, 2, 3))
"""

COMMAND = """
import signal
import farout.cli, farout.study.engines.scheduler, farout.study.packing

signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background inherits that it is ignored
farout.study.engines.scheduler.FLUSH_SECONDS = 0.1
farout.study.packing.RECORDS = 6
farout.cli.main()
"""


def start(folder: Path, out: Path) -> subprocess.Popen:
    arguments = [
        "run",
        str(folder / "study.yaml"),
        "--out",
        str(out),
        "--workers",
        "2",
        "--plugin",
        str(folder / "slow.py"),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen([sys.executable, "-c", COMMAND, *arguments], stdout=log, stderr=log, env=environment)


def steps(out: Path) -> int:
    """How far a run has come: results and kept parts."""
    return len(cells(out)) + sum(1 for _ in out.glob("partial/*/*.safetensors"))


def cells(out: Path) -> set[str]:
    """The results of a run, in folders and packs."""
    return {path.parent.name for path in out.glob("cells/*/record.json")} | Store(out).packs.cells()


def kill_at_some_moment(process: subprocess.Popen, out: Path, moments: random.Random) -> bool:
    """Kill it a while after it has come up to three steps further; False if it was finished before."""
    target = steps(out) + moments.randrange(4)
    while steps(out) < target and process.poll() is None:
        time.sleep(0.01)
    time.sleep(moments.uniform(0, 0.5))
    process.kill()
    return process.wait(60) != 0


def content(out: Path) -> dict[str, bytes]:
    """Everything that was computed: scores, fitted detectors, weights; not the records, which carry times."""
    store = Store(out)
    return {f"{cell}/{name}": store.read(cell, name) for cell in cells(out) for name in store.facts(cell)["files"]}


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_killed_and_continued_gives_the_same_bytes(tmp_path, kills):
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "slow.py").write_text(PLUGIN)
    assert start(tmp_path, tmp_path / "whole").wait(300) == 0, (tmp_path / "log").read_text()
    expected = content(tmp_path / "whole")
    assert list((tmp_path / "whole" / "packs").iterdir()), "results are packed while they are computed"
    assert len(expected) == 1 + 6 + 2 * 7 * 3 + 1  # weights, fitted detectors, scores and examples, classes
    moments, killed, runs, stages = random.Random(0), 0, [tmp_path / "run0"], set()
    while killed < kills:
        if kill_at_some_moment(start(tmp_path, runs[-1]), runs[-1], moments):
            killed += 1
            stages.add(steps(runs[-1]))
        else:
            runs.append(tmp_path / f"run{len(runs)}")
    assert len(stages) >= min(kills - 1, 4), "the kills hit too few stages"
    assert start(tmp_path, runs[-1]).wait(300) == 0, (tmp_path / "log").read_text()
    for run in runs:
        found = content(run)
        assert expected.keys() == found.keys()
        assert [name for name in expected if expected[name] != found[name]] == []


@pytest.mark.parametrize(
    ("sign", "code"), [pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow), (signal.SIGINT, 130)]
)
def test_a_run_told_to_stop_keeps_what_is_done_and_says_so(tmp_path, sign, code):
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "slow.py").write_text(PLUGIN)
    process = start(tmp_path, tmp_path / "run")
    while not list((tmp_path / "run").glob("partial/*/part-*")) and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(sign)
    assert process.wait(60) == code
    assert "the same command resumes from there" in (tmp_path / "log").read_text()
    assert list((tmp_path / "run").glob("partial/*/part-*"))
