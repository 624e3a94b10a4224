"""Detectors that misbehave fail by name on a real Ray and on a real Slurm; the sound one's results are there."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import farout
from farout.networks import create, save_weights
from helpers.misbehaving import POST_HOC, REASONS, STUDY, results, run
from helpers.slurm_cluster import cluster, why_not

pytestmark = pytest.mark.slow
TIMEOUT = ("--timeout", "20")
IN_TIME = {"hangs": r"OutOfTime: took longer than 20 s for one chunk \(--timeout\)"}
LOST = r"TaskLost: 3 times in a row; the last time its process died"
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (the extra ray)")


def check(folder: Path, ended: subprocess.CompletedProcess[str], reasons: dict[str, str]) -> None:
    """Check that every bad detector has failed for its reason, and the others have their results."""
    assert ended.returncode == 1, ended.stdout + ended.stderr
    done, failed = results(folder)
    assert done == {"sound": 2, "thread": 2}
    assert failed.keys() == reasons.keys()
    for name, why in reasons.items():
        assert re.search(why, failed[name]), failed[name]
        assert name in ended.stdout + ended.stderr


@needs_ray
def test_on_ray_every_bad_detector_fails_by_name(tmp_path: Path) -> None:
    names = [*REASONS, "thread", "sound"]
    ended = run(tmp_path, names, "--engine", "ray", "--address", "local", "--workers", "2", *TIMEOUT)
    check(tmp_path, ended, {**REASONS, **IN_TIME, "quits": LOST, "crashes": LOST, "fit_quits": LOST})


@needs_ray
def test_on_ray_a_detector_that_cannot_be_sent_fails_alone(tmp_path: Path) -> None:
    save_weights(create("lenet", 4, 32), tmp_path / "lenet.safetensors")
    (tmp_path / "study.yaml").write_text(
        STUDY.replace("NAMES", "locked, words, msp") + "networks: [{name: lenet, weights: lenet.safetensors}]\n"
    )
    (tmp_path / "mine.py").write_text(POST_HOC)
    command = [sys.executable, "-m", "farout", "run", "study.yaml", "--out", "run", "--plugin", "mine.py"]
    options = ["--engine", "ray", "--address", "local", "--workers", "1"]
    ended = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert ended.returncode == 1, ended.stderr
    done, failed = results(tmp_path)
    assert done == {"msp": 2}
    assert failed.keys() == {"locked", "words"}
    assert "lock" in failed["locked"]


@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_on_slurm_every_bad_detector_fails_by_name(tmp_path: Path) -> None:
    with cluster(tmp_path / "cluster") as environment:
        settings = {"SLURM_CONF": environment["SLURM_CONF"], "PYTHONPATH": str(Path(farout.__file__).parents[1])}
        ended = run(tmp_path, [*REASONS, "thread", "sound"], "--engine", "slurm", *TIMEOUT, **settings)
    check(tmp_path, ended, {**REASONS, **IN_TIME})
    assert len(list((tmp_path / "run/slurm").iterdir())) == 2, "one task for all, and one for those that wait for a fit"
