"""Engine "slurm" on a real Slurm of two nodes: killed tasks, lost nodes and time limits leave the scores unchanged."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import farout
from helpers.slurm_cluster import cluster, why_not

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]

SLOW = """
import os, time
import farout

@farout.register
class Slow(farout.Detector):
    name = "slow_brightness"

    def score(self, images):
        time.sleep(float(os.environ.get("SLOW_SECONDS", "0")))
        return images.double().mean((1, 2, 3))
"""
TRAINED = """
inliers:
  train: {name: toy, limit: 256}
  val: {name: toy, split: val, limit: 64}
  test: {name: toy, split: test, limit: 150}
outliers: [{name: toy, split: test/ood_cls, limit: 100}, {name: noise, limit: 70}]
networks: [{name: lenet, train: {epochs: 2}}, {name: lenet, width: 2, label: wide, train: {epochs: 2}}]
detectors: [msp, knn, mds]
protocols: [clean, {name: evg, variations: [affine], detectors: [msp], chains: 64, steps: 5}]
budget: full
"""
LONG = """
inliers: {test: {name: toy, split: test, limit: 1280}}
outliers: [{name: noise, limit: 1280}]
detectors: [slow_brightness]
budget: full
"""
# the run looks at its tasks more often than it would on a cluster
PROGRAM = """
import farout.cli
from farout.study.engines.slurm import executor

executor.POLL_SECONDS, executor.SETTLE_SECONDS = 0.5, 8.0
farout.cli.main()
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with cluster(tmp_path_factory.mktemp("slurm")) as environment:
        package = str(Path(farout.__file__).parents[1])
        yield {**environment, "OMP_NUM_THREADS": "1", "PYTHONPATH": package}


class Study:
    """Study in a folder, with the command that runs it."""

    def __init__(self, folder: Path, text: str, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        (folder / "study.yaml").write_text(text)
        (folder / "slow.py").write_text(SLOW)

    def start(self, out: str, *options: str, seconds: float = 0.0) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PROGRAM, "run", "study.yaml", "--out", out, "--plugin", "slow.py", *options]
        environment = {**self.environment, "SLOW_SECONDS": str(seconds)}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen(command, cwd=self.folder, env=environment, text=True, **pipes)  # type: ignore[call-overload,no-any-return]

    def run(self, out: str, *options: str, seconds: float = 0.0) -> str:
        process = self.start(out, *options, seconds=seconds)
        output = process.communicate(timeout=900)[0]
        assert process.returncode == 0, output
        return output

    def scores(self, out: str) -> dict[str, bytes]:
        paths = (self.folder / out).glob("cells/*/*.parquet")
        return {path.parent.name: path.read_bytes() for path in paths}

    def check(self, out: str, count: int) -> None:
        """Check that the scores are those of the local engine, and that there are at least so many tables of them."""
        self.run("local", "--workers", "0")
        expected = self.scores("local")
        assert len(expected) >= count
        assert self.scores(out) == expected


def ask(environment: dict[str, str], *command: str) -> str:
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def wait_for(process: subprocess.Popen[str], found: Callable[[], bool], seconds: float = 400) -> None:
    deadline = time.monotonic() + seconds
    while not found():
        if time.monotonic() > deadline or process.poll() is not None:
            process.kill()
            pytest.fail(process.communicate()[0])
        time.sleep(0.2)


def workers(out: Path) -> list[int]:
    """Return the processes that compute tasks of a run and have begun to score."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"work" in words and any(word.startswith(str(out).encode()) for word in words):
            found.append(int(path.parent.name))
    return found


def has_chunks(out: Path) -> bool:
    return any(out.glob("partial/*/part-*"))


def test_training_fits_searches_and_scores_run_as_arrays(slurm: dict[str, str], tmp_path: Path) -> None:
    study = Study(tmp_path, TRAINED, slurm)
    output = study.run("slurm", "--engine", "slurm", "--task-minutes", "0.03", "--time", "20")
    arrays = sorted((tmp_path / "slurm/slurm").iterdir())
    assert len(arrays) >= 4
    assert "#SBATCH --dependency=afterany:" in (arrays[-1] / "script.sh").read_text()
    assert " failed" in output
    study.check("slurm", 2 * 3 * 3 + 2 * 3)  # networks x detectors x sets; searches, transfers and controls


def test_a_killed_task_fails_alone_and_the_same_command_submits_it_again(slurm: dict[str, str], tmp_path: Path) -> None:
    study, out = Study(tmp_path, LONG, slurm), tmp_path / "slurm"
    options = ("--engine", "slurm", "--task-minutes", "0.01")
    process = study.start("slurm", *options, seconds=1.0)
    wait_for(process, lambda: has_chunks(out))
    os.kill(workers(out)[0], signal.SIGKILL)
    output = process.communicate(timeout=900)[0]
    assert process.returncode == 1, output
    assert re.search(
        r"failed: slow_brightness: SlurmTaskDied: \d+_[01] ended \(FAILED.*while it computed score", output
    )
    assert len(study.scores("slurm")) == 1
    assert "1 results computed, 1 there already, 0 failed" in study.run("slurm", *options)
    study.check("slurm", 2)


def test_tasks_of_a_lost_node_resume_on_another(slurm: dict[str, str], tmp_path: Path) -> None:
    study, out = Study(tmp_path, LONG, slurm), tmp_path / "slurm"
    process = study.start("slurm", "--engine", "slurm", "--task-minutes", "0.01", seconds=1.0)
    wait_for(process, lambda: len(workers(out)) == 2 and has_chunks(out))
    ask(slurm, "scontrol", "update", "nodename=node2", "state=down", "reason=test")
    try:
        output = process.communicate(timeout=900)[0]
    finally:
        ask(slurm, "scontrol", "update", "nodename=node2", "state=resume")
    assert process.returncode == 0, output
    logs = [path.read_text() for path in out.glob("slurm/*/task-*.log")]
    assert sum("results computed" in text for text in logs) == 2
    assert any("NODE FAILURE" in text or "CANCELLED" in text for text in logs), logs
    study.check("slurm", 2)


def test_a_task_at_its_time_limit_is_requeued_and_resumes(slurm: dict[str, str], tmp_path: Path) -> None:
    study, out = Study(tmp_path, LONG, slurm), tmp_path / "slurm"
    study.run("slurm", "--engine", "slurm", "--task-minutes", "0.01", "--time", "3", seconds=7.0)
    logs = [path.read_text() for path in out.glob("slurm/*/task-*.log")]
    assert len(logs) == 2
    assert all(text.count("back in the queue") >= 1 for text in logs), logs
    study.check("slurm", 2)


def test_ctrl_c_leaves_the_jobs_and_the_same_command_attaches(slurm: dict[str, str], tmp_path: Path) -> None:
    study, out = Study(tmp_path, LONG, slurm), tmp_path / "slurm"
    options = ("--engine", "slurm", "--task-minutes", "0.01")
    process = study.start("slurm", *options, seconds=1.0)
    wait_for(process, lambda: has_chunks(out))
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=100)[0]
    (job,) = re.findall(r"to cancel it: scancel (\d+)", output)
    refused = study.start("slurm", "--workers", "0")
    assert f"use --engine slurm to attach to its jobs, or cancel them: scancel {job}" in refused.communicate()[0]
    assert refused.returncode == 2
    assert f"attached to 2 array tasks that have not ended: {job}" in study.run("slurm", *options)
    assert len(list((out / "slurm").iterdir())) == 1
    study.check("slurm", 2)
