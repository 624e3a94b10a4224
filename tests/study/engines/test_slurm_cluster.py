"""Engine "slurm" on a real Slurm of two nodes: killed tasks, lost nodes and time limits leave the scores unchanged."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import uuid
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
    chunks = 0

    def score(self, images):
        time.sleep(float(os.environ.get("SLOW_SECONDS", "0")))
        Slow.chunks += 1
        while Slow.chunks > 8 and os.path.exists("hold"):  # so that a test meets a running task, on any machine
            time.sleep(0.1)
        return images.double().mean((1, 2, 3))

    def identity(self):
        return {"name": self.name, "version": 1}
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


class Command:
    """Running command, whose output goes to a file."""

    def __init__(self, words: list[str], folder: Path, environment: dict[str, str]) -> None:
        self.log = folder / f"command-{uuid.uuid4().hex}.log"
        with self.log.open("w") as file:
            self.process = subprocess.Popen(words, cwd=folder, env=environment, stdout=file, stderr=file)

    @property
    def output(self) -> str:
        return self.log.read_text()

    def finish(self, code: int = 0) -> str:
        """Wait for the end; return the output."""
        assert self.process.wait(900) == code, self.output
        return self.output

    def wait_for(self, found: Callable[[], bool], seconds: float = 900) -> None:
        """Wait until something is found, while the command runs."""
        deadline = time.monotonic() + seconds
        while not found():
            if time.monotonic() > deadline or self.process.poll() is not None:
                self.process.kill()
                pytest.fail(self.output)
            time.sleep(0.2)


class Study:
    """Study in a folder, with the command that runs it."""

    def __init__(self, folder: Path, text: str, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        (folder / "study.yaml").write_text(text)
        (folder / "slow.py").write_text(SLOW)

    def hold(self) -> None:
        """Let detectors stop after eight chunks, until `release`."""
        (self.folder / "hold").touch()

    def release(self) -> None:
        """Let detectors go on."""
        (self.folder / "hold").unlink()

    def start(self, out: str, *options: str, seconds: float = 0.0) -> Command:
        words = [sys.executable, "-c", PROGRAM, "run", "study.yaml", "--out", out, "--plugin", "slow.py", *options]
        return Command(words, self.folder, {**self.environment, "SLOW_SECONDS": str(seconds)})

    def scores(self, out: str) -> dict[str, bytes]:
        paths = (self.folder / out).glob("cells/*/*.parquet")
        return {path.parent.name: path.read_bytes() for path in paths}

    def check(self, out: str, count: int) -> None:
        """Check that the scores are those of the local engine, and that there are at least so many tables of them."""
        self.start("local", "--workers", "0").finish()
        expected = self.scores("local")
        assert len(expected) >= count
        assert self.scores(out) == expected


def ask(environment: dict[str, str], *command: str) -> str:
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


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


def logs(out: Path) -> list[str]:
    """Return the output of all tasks."""
    return [path.read_text() for path in out.glob("slurm/*/task-*.log")]


def has_chunks(out: Path) -> bool:
    return any(out.glob("partial/*/part-*"))


def test_training_fits_searches_and_scores_run_as_arrays(slurm: dict[str, str], tmp_path: Path) -> None:
    study = Study(tmp_path, TRAINED, slurm)
    output = study.start("slurm", "--engine", "slurm", "--task-minutes", "0.03", "--time", "20").finish()
    arrays = sorted((tmp_path / "slurm/slurm").iterdir())
    assert len(arrays) >= 4
    assert "#SBATCH --dependency=afterany:" in (arrays[-1] / "script.sh").read_text()
    assert " 0 failed" in output
    study.check("slurm", 2 * 3 * 3 + 2 * 3)  # networks x detectors x sets; searches, transfers and controls


def test_a_killed_task_fails_alone_and_the_same_command_submits_it_again(slurm: dict[str, str], tmp_path: Path) -> None:
    study, out = Study(tmp_path, LONG, slurm), tmp_path / "slurm"
    options = ("--engine", "slurm", "--task-minutes", "0.01")
    study.hold()
    run = study.start("slurm", *options, seconds=1.0)
    run.wait_for(lambda: has_chunks(out))
    os.kill(workers(out)[0], signal.SIGKILL)
    study.release()
    output = run.finish(1)
    assert re.search(
        r"failed: slow_brightness: SlurmTaskDied: \d+_[01] ended \(FAILED.*while it computed score", output
    )
    assert len(study.scores("slurm")) == 1
    assert "1 results computed, 1 there already, 0 failed" in study.start("slurm", *options).finish()
    study.check("slurm", 2)


def test_tasks_of_a_lost_node_resume_on_another(slurm: dict[str, str], tmp_path: Path) -> None:
    study, out = Study(tmp_path, LONG, slurm), tmp_path / "slurm"
    study.hold()
    run = study.start("slurm", "--engine", "slurm", "--task-minutes", "0.01", seconds=1.0)
    run.wait_for(lambda: len(workers(out)) == 2 and has_chunks(out))
    ask(slurm, "scontrol", "update", "nodename=node2", "state=down", "reason=test")
    study.release()
    try:
        run.finish()
    finally:
        ask(slurm, "scontrol", "update", "nodename=node2", "state=resume")
    found = logs(out)
    assert sum("results computed" in text for text in found) == 2
    assert any("NODE FAILURE" in text or "CANCELLED" in text for text in found), found
    study.check("slurm", 2)


def test_a_task_at_its_time_limit_is_requeued_and_resumes(slurm: dict[str, str], tmp_path: Path) -> None:
    study, out = Study(tmp_path, LONG, slurm), tmp_path / "slurm"
    study.hold()  # until both tasks have met their limit
    run = study.start("slurm", "--engine", "slurm", "--task-minutes", "0.01", "--time", "4", seconds=1.0)
    run.wait_for(lambda: ["back in the queue" in text for text in logs(out)] == [True, True])
    study.release()
    run.finish()
    study.check("slurm", 2)


def test_ctrl_c_leaves_the_jobs_and_the_same_command_attaches(slurm: dict[str, str], tmp_path: Path) -> None:
    study, out = Study(tmp_path, LONG, slurm), tmp_path / "slurm"
    options = ("--engine", "slurm", "--task-minutes", "0.01")
    study.hold()
    run = study.start("slurm", *options, seconds=1.0)
    run.wait_for(lambda: has_chunks(out))
    run.process.send_signal(signal.SIGTERM)
    (job,) = re.findall(r"to cancel it: scancel (\d+)", run.finish(128 + signal.SIGTERM))
    refused = study.start("slurm", "--workers", "0").finish(2)
    assert f"use --engine slurm to attach to its jobs, or cancel them: scancel {job}" in refused
    again = study.start("slurm", *options)
    again.wait_for(lambda: f"attached to 2 array tasks that have not ended: {job}" in again.output)
    study.release()
    again.finish()
    assert len(list((out / "slurm").iterdir())) == 1
    study.check("slurm", 2)
