"""Perceptual and exposed cells of `raised_bar` that are killed midway: the same command again gives the same bytes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import farout

RECIPE = {"epochs": 2, "batch": 32, "lr": 0.05, "augment": "none"}
SPLITS = {
    split: {"name": "toy", "split": split, "limit": count}
    for split, count in (("train", 128), ("val", 32), ("test", 100))
}
PROTOCOL: dict[str, Any] = {
    "name": "raised_bar",
    "near": False,
    "sanity": False,
    "shifted": {"generator": "pix2pix.safetensors"},
    "corruptions": ["contrast"],
    "exposure": {"outliers": {"noise": {"name": "noise", "options": {"n": 64}}}},
}
PLUGIN = """
import os
import signal
from pathlib import Path

from farout.study.cells.perceptual import PerceptualJob
from farout.training import loop
from farout.training.exposure import ExposedClassifier

loop.CHECKPOINT_SECONDS = 0.0
FOLDER = Path(__file__).parent


def kill_within(owner, name, last, log):
    # Log every call; end the process at a call in the middle, once.
    whole, calls = getattr(owner, name), []

    def counted(self, *args):
        calls.append(args)
        if len(calls) == last and not log.with_suffix(".killed").exists():
            log.with_suffix(".killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        with log.open("a") as file:
            file.write("call\\n")
        return whole(self, *args)

    setattr(owner, name, counted)


kill_within(PerceptualJob, "run", 2, FOLDER / "perceptual")
kill_within(ExposedClassifier, "loss", 6, FOLDER / "exposed")
"""
CALLS = {"perceptual": 4, "exposed": 8}
"""Calls of an undisturbed run: two chunks of two copies; two epochs of four batches."""
TIMES = ("at", "seconds", "sha256")
"""Facts of a record that differ between runs: times, and the checksum of the record with them."""


def write_study(folder: Path) -> Path:
    generator = farout.generators.create("pix2pix", side=32, width=4)
    generator.module = generator.build()
    generator.save(folder / "pix2pix.safetensors")
    content = {
        "inliers": SPLITS,
        "outliers": [{"name": "noise", "limit": 48}],
        "networks": [{"name": "lenet", "train": RECIPE}],
        "detectors": ["msp"],
        "protocols": [PROTOCOL],
        "budget": "full",
    }
    (folder / "study.yaml").write_text(yaml.safe_dump(content))
    return folder / "study.yaml"


def contents(run: Path) -> dict[str, Any]:
    """All results of a run: records without their times, other files to the byte."""
    return {
        str(path.relative_to(run)): record(path) if path.name == "record.json" else path.read_bytes()
        for path in run.glob("cells/*/*")
    }


def record(path: Path) -> dict[str, Any]:
    return {name: value for name, value in json.loads(path.read_bytes()).items() if name not in TIMES}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_killed_cells_continue_to_the_same_bytes(tmp_path: Path) -> None:
    file = write_study(tmp_path)
    (tmp_path / "kills.py").write_text(PLUGIN)
    arguments = ["--out", tmp_path / "killed", "--workers", 0, "--plugin", tmp_path / "kills.py", "--quiet"]
    command = list(map(str, [sys.executable, "-m", "farout", "run", file, *arguments]))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    codes = [subprocess.run(command, env=environment, check=False, timeout=300).returncode for _ in range(3)]
    assert codes == [-signal.SIGKILL, -signal.SIGKILL, 0]
    for name, whole in CALLS.items():
        calls = len((tmp_path / name).read_text().split())
        assert whole <= calls <= whole + 1, f"{name}: finished steps are not computed again"
    farout.run(file, tmp_path / "whole", workers=0)
    expected = contents(tmp_path / "whole")
    kinds = [one["identity"]["kind"] for path, one in expected.items() if path.endswith("record.json")]
    assert kinds.count("perceptual") == 2
    assert contents(tmp_path / "killed") == expected
