"""Engine "slurm" with stand-ins for Slurm's commands, which really run the tasks of the arrays."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import farout
from farout.study.engines.slurm import client, executor
from farout.study.results import Results
from farout.study.store import StoreError
from helpers import command_line
from helpers.fake_slurm import ACTS, SEEN, FakeSlurm

STUDY = """
inliers:
  train: {name: toy, limit: 64}
  val: {name: toy, split: val, limit: 32}
  test: {name: toy, split: test, limit: 70}
outliers: [{name: noise, limit: 40}]
networks: [{name: lenet, width: 2, train: {epochs: 1}}]
detectors: [msp, knn]
budget: full
"""
SINGLE = """
inliers: {test: {name: toy, split: test, limit: 200}}
outliers: [{name: noise, limit: 70}]
detectors: [probe, plain_brightness]
budget: full
"""
PLUGIN = """
import farout
from helpers.fake_slurm import score_probe

class Base(farout.Detector):
    def score(self, images):
        return images.double().mean((1, 2, 3))

@farout.register
class Plain(Base):
    name = "plain_brightness"

@farout.register
class Probe(Base):
    name = "probe"

    def identity(self):
        return {"name": "probe", "version": 1}

    def score(self, images):
        score_probe(len(images))
        return super().score(images)
"""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSlurm]:
    """The commands on the PATH; each look at the queue first runs one task."""
    fake = FakeSlurm(tmp_path / "slurm")
    monkeypatch.setenv("PATH", f"{fake.folder / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "")
    monkeypatch.setattr(executor, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(executor, "SETTLE_SECONDS", 0.0)
    read = client.read_queue
    fake.run = run_task  # type: ignore[attr-defined]

    def run_and_read() -> client.Queue:
        fake.step(fake.run)  # type: ignore[attr-defined]
        return read()

    monkeypatch.setattr(executor.client, "read_queue", run_and_read)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)}
    SEEN.clear()
    ACTS.clear()
    yield fake
    for number, handler in handlers.items():
        signal.signal(number, handler)


def run_task(folder: Path, index: int) -> int:
    ended = command_line.farout("work", folder, "--task", index)
    with (folder / f"task-{index}.log").open("a") as log:
        log.write(ended.out + ended.err)
    return ended.code


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "single.yaml").write_text(SINGLE)
    (tmp_path / "probe.py").write_text(PLUGIN)
    return tmp_path


def run(files: Path, study: str, out: str, **options: Any) -> farout.api.run.Result:
    return farout.run(
        files / study, files / out, plugins=(str(files / "probe.py"),) if study == "single.yaml" else (), **options
    )


def run_slurm(files: Path, study: str = "study.yaml", minutes: float = 30, **options: Any) -> farout.api.run.Result:
    return run(files, study, "out", engine="slurm", options={"task_minutes": minutes, **options})


def tables(folder: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in folder.glob("cells/*/*.parquet")}


def check(files: Path, study: str = "study.yaml") -> None:
    """Check that the scores equal those of the local engine."""
    run(files, study, "local")
    assert tables(files / "local")
    assert tables(files / "out") == tables(files / "local")


def test_training_fits_and_scores_are_arrays_that_wait_for_each_other(files: Path, slurm: FakeSlurm) -> None:
    outcome = run_slurm(files, minutes=1e-6).outcome
    assert not outcome.failed
    assert outcome.reused == 0
    scripts = [Path(arguments[-1]).read_text() for arguments in slurm.calls("sbatch")]
    after = [re.findall("--dependency=afterany:(.*)", text) for text in scripts]
    assert after[:2] == [[], ["1"]]  # training; the fit of the panel
    assert all(found and set(found[0].split(":")) <= {"1", "2"} for found in after[2:])
    assert slurm.order[:2] == ["1_0", "2_0"]
    assert sorted(outcome.done) == sorted(path.name for path in (files / "out/cells").iterdir())
    check(files)


def test_small_works_share_a_task(files: Path, slurm: FakeSlurm) -> None:
    run_slurm(files, "single.yaml")
    assert slurm.order == ["1_0"]
    check(files, "single.yaml")


def test_the_same_run_again_submits_nothing(files: Path, slurm: FakeSlurm) -> None:
    run_slurm(files, "single.yaml")
    again = run_slurm(files, "single.yaml").outcome
    assert (again.done, again.failed, len(slurm.calls("sbatch"))) == ([], {}, 1)


def test_a_script_names_resources_and_the_command(files: Path, slurm: FakeSlurm) -> None:
    run_slurm(files, "single.yaml", partition="gpu", time="1:00:00", gpus="a100:1", sbatch=("--account=vision",))
    folder = next((files / "out/slurm").iterdir())
    lines = (folder / "script.sh").read_text().splitlines()
    for directive in ("--partition=gpu", "--time=1:00:00", "--gpus=a100:1", "--account=vision", "--array=0-0"):
        assert f"#SBATCH {directive}" in lines
    assert {"#SBATCH --signal=B:USR1@60", "#SBATCH --requeue", "#SBATCH --open-mode=append"} <= set(lines)
    assert f"#SBATCH --output={folder}/task-%a.log" in lines
    (exports,) = (line for line in lines if line.startswith("export "))
    assert {"OMP_NUM_THREADS=1", "FAROUT_OFFLINE=1", "HF_HUB_OFFLINE=1"} <= set(exports.split())
    assert lines[-1] == f'exec {sys.executable} -m farout work {folder} --task "$SLURM_ARRAY_TASK_ID"'
    assert (folder / "job.json").read_text().count('"job": "1"') == 1


def test_a_task_near_its_time_limit_is_requeued_and_resumes(files: Path, slurm: FakeSlurm) -> None:
    ACTS.append(lambda count: os.kill(os.getpid(), signal.SIGUSR1) if count == 3 else None)
    outcome = run_slurm(files, "single.yaml", minutes=1e-6).outcome
    assert not outcome.failed
    (requeued,) = slurm.calls("scontrol")
    assert requeued[0] == "requeue"
    assert slurm.order.count(requeued[1]) == 2
    assert sorted(SEEN) == sorted([64, 64, 64, 8, 64, 6, 64])  # the interrupted chunk alone is repeated
    assert "back in the queue" in next((files / "out/slurm").glob(f"*/task-{requeued[1][2:]}.log")).read_text()
    check(files, "single.yaml")


def test_a_task_without_progress_is_not_requeued(files: Path, slurm: FakeSlurm) -> None:
    ACTS.append(lambda count: os.kill(os.getpid(), signal.SIGUSR1))
    failed = run_slurm(files, "single.yaml", minutes=1e-6).outcome.failed
    assert slurm.calls("scontrol") == []
    assert len(failed) == 2
    assert all("the time limit has passed without progress" in reason for reason in failed.values())


def test_a_failing_detector_is_recorded_by_name_and_the_others_go_on(files: Path, slurm: FakeSlurm) -> None:
    ACTS.append(lambda count: 1 / 0)
    outcome = run_slurm(files, "single.yaml").outcome
    assert len(outcome.done) == len(outcome.failed) == 2
    assert all(reason.startswith("probe: ZeroDivisionError") for reason in outcome.failed.values())
    tracebacks = [failure.traceback for failure in Results(files / "out").failures().values()]
    assert all("score_probe(len(images))" in text for text in tracebacks)
    ACTS.clear()
    again = run_slurm(files, "single.yaml").outcome
    assert (len(again.done), again.reused, again.failed) == (2, 2, {})
    check(files, "single.yaml")


def test_a_task_that_dies_fails_alone_and_the_same_command_submits_it_again(files: Path, slurm: FakeSlurm) -> None:
    def dies(folder: Path, index: int) -> int:
        if slurm.order == ["1_0"]:
            (folder / "task-0.log").write_text("slurmstepd: error: Detected 1 oom_kill event\n")
            return 1
        return run_task(folder, index)

    slurm.run = dies  # type: ignore[attr-defined]
    outcome = run_slurm(files, minutes=1e-6).outcome
    assert outcome.done == []
    first = next(reason for cell, reason in outcome.failed.items() if cell not in outcome.impossible)
    assert first.startswith("SlurmTaskDied: 1_0 ended (FAILED); slurmstepd: error: Detected 1 oom_kill event; the same")
    assert len(outcome.impossible) == len(outcome.failed) - 1 > 0  # the fit and the scores require the network
    fit = next((files / "out/slurm").glob("0002-*/task-0.log")).read_text()
    assert "0 results computed, 3 failed" in fit  # the network and two fits
    assert not run_slurm(files).outcome.failed
    check(files)


def test_a_stopped_run_leaves_its_jobs_and_the_next_attaches(files: Path, slurm: FakeSlurm, caplog: Any) -> None:
    def stop(folder: Path, index: int) -> int:
        raise KeyboardInterrupt

    slurm.run = stop  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        run_slurm(files, minutes=1e-6)
    submitted = len(slurm.calls("sbatch"))
    assert "to cancel it: scancel 1 2" in caplog.text
    slurm.set("1", 0, "PENDING")
    slurm.run = lambda folder, index: 0  # type: ignore[attr-defined]
    with pytest.raises(StoreError, match="use --engine slurm to attach to its jobs, or cancel them: scancel 2 3"):
        run(files, "study.yaml", "out")
    slurm.run, slurm.order = run_task, []  # type: ignore[attr-defined]
    queue = slurm.read()
    for one in queue.values():
        one["states"] = ["PENDING" for _ in one["states"]]
    slurm.write(queue)
    next((files / "out/slurm").glob("0001-*/job.json")).unlink()  # as if it was killed right after sbatch
    assert not run_slurm(files, minutes=1e-6).outcome.failed
    assert len(slurm.calls("sbatch")) == submitted
    assert "attached to" in caplog.text
    check(files)


def test_ctrl_c_on_a_terminal_asks_and_cancels(files: Path, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def interrupt(folder: Path, index: int) -> int:
        slurm.run = lambda folder, index: 0  # type: ignore[attr-defined]
        os.kill(os.getpid(), signal.SIGINT)
        return 0

    slurm.run = interrupt  # type: ignore[attr-defined]
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    options = ("--out", files / "out", "--engine", "slurm", "--task-minutes", "0.01")
    ended = command_line.farout("run", files / "study.yaml", *options)
    assert ended.code == 130
    assert "array tasks (1 2" in ended.err + ended.out
    assert slurm.calls("scancel")[0][0] == "1"


def test_a_dry_run_prints_the_scripts_and_does_nothing(files: Path, slurm: FakeSlurm) -> None:
    options = ("--out", files / "out", "--engine", "slurm", "--dry-run", "--task-minutes", "0.01", "--time", "30")
    ended = command_line.farout("run", files / "study.yaml", *options)
    assert ended.code == 0, ended.err
    assert ended.out.count("#!/bin/bash") >= 3
    assert "#SBATCH --dependency=afterany:JOB1_0" in ended.out
    assert "minutes: train lenet" in ended.out
    assert not (files / "out").exists()
    assert slurm.calls("sbatch") == slurm.calls("squeue") == []


def test_errors_of_sbatch_are_shown(files: Path, slurm: FakeSlurm) -> None:
    with pytest.raises(client.SlurmError, match="sbatch failed: sbatch: error: invalid partition specified: nowhere"):
        run_slurm(files, "single.yaml", partition="nowhere")


def test_bad_options_are_refused_before_anything_is_computed(files: Path) -> None:
    with pytest.raises(
        ValueError, match=r"unknown option of the engine 'slurm': 'partitoin'. Did you mean 'partition'"
    ):
        run(files, "study.yaml", "out", engine="slurm", options={"partitoin": "gpu"})
    with pytest.raises(ValueError, match="unknown option of the engine 'local': 'partition'"):
        run(files, "study.yaml", "out", options={"partition": "gpu"})
    with pytest.raises(ValueError, match="must start with '-', got 'account=x'"):
        run_slurm(files, sbatch=("account=x",))
    with pytest.raises(ValueError, match="must be one line of text"):
        run_slurm(files, partition="a\n#SBATCH --wrap=x")
    with pytest.raises(ValueError, match="task_minutes must be greater than 0"):
        run_slurm(files, minutes=0)
    assert not (files / "out").exists()


def test_without_slurm_the_missing_command_is_named(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(files))
    with pytest.raises(client.SlurmError, match="sbatch is not installed here: run this on a login node"):
        run_slurm(files, "single.yaml")


def test_a_held_task_is_named_once(
    files: Path, slurm: FakeSlurm, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begins_at_third_look(folder: Path, index: int) -> int:
        if len(slurm.order) == 3:
            return run_task(folder, index)
        slurm.set("1", 0, "PENDING")
        return 0

    def read() -> client.Queue:
        reason = "launch_failed_requeued_held"
        return {key: one._replace(reason=reason) if one.live else one for key, one in run_and_read().items()}

    slurm.run, run_and_read = begins_at_third_look, client.read_queue  # type: ignore[attr-defined]
    monkeypatch.setattr(client, "read_queue", read)
    assert not run_slurm(files, "single.yaml").outcome.failed
    assert caplog.text.count("Slurm holds 1_0 (launch_failed_requeued_held): scontrol release 1_0 lets it begin") == 1
