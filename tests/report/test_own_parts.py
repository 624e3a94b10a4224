"""A report needs none of the user's code: all that it shows is stored with the results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from helpers.written_runs import lenet_weights

PLUGIN = """
import dataclasses
import farout
from farout import search


@farout.register
@dataclasses.dataclass
class Dimmer(farout.Variation):
    name = "dimmer"
    lowest: float = 0.5
    dim = 1

    def decode(self, z, base):
        return base * (self.lowest + (1 - self.lowest) * z[:, :, None, None])


@farout.register
@dataclasses.dataclass(kw_only=True)
class Mine(search.RandomSearch):
    name = "mine"


@farout.register
@dataclasses.dataclass
class Dark(farout.Shift):
    name = "dark"
    random = False

    def apply(self, images, params):
        return images / 2


@farout.register
@dataclasses.dataclass(kw_only=True)
class Weak(farout.Attack):
    name = "weak"

    def run(self, target, images, labels, rngs):
        return (images + 0.02).clamp(0, 1)
"""
STUDY = {
    "inliers": {"test": {"name": "toy", "limit": 40}},
    "outliers": [{"name": "noise", "limit": 30}],
    "networks": [{"name": "lenet", "weights": "lenet.safetensors"}],
    "detectors": ["msp"],
    "protocols": [
        {"name": "evg", "variations": ["dimmer"], "methods": ["mine"], "chains": 6, "steps": 3},
        {"name": "rood", "setups": {"night": ["dark"]}},
        {"name": "evasion", "attacks": ["weak"], "images": 10, "attention": False},
    ],
    "budget": "quick",
}


def farout(folder: Path, *arguments: str) -> str:
    """What the command says, in a process of its own."""
    run = [sys.executable, "-m", "farout", *arguments]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study of own parts, run."""
    folder = tmp_path_factory.mktemp("own")
    lenet_weights(folder)
    (folder / "mine.py").write_text(PLUGIN)
    (folder / "study.yaml").write_text(yaml.safe_dump(STUDY))
    farout(folder, "run", "study.yaml", "--out", "run", "--workers", "0", "--plugin", "mine.py")
    return folder


@pytest.mark.slow
def test_the_report_is_the_same_without_the_plugin(folder: Path) -> None:
    farout(folder, "report", "run", "--out", "with/report.html", "--plugin", "mine.py")
    (folder / "mine.py").rename(folder / "elsewhere.txt")
    assert farout(folder, "report", "run", "--out", "without/report.html") == "wrote without/report.html\n"
    page = (folder / "without" / "report.html").read_text(encoding="utf-8")
    assert page == (folder / "with" / "report.html").read_text(encoding="utf-8")
    for name in ("dimmer", "mine", "night", "dark", "weak"):
        assert name in page
    tables = sorted(path.name for path in (folder / "with" / "tables").iterdir())
    assert tables == sorted(path.name for path in (folder / "without" / "tables").iterdir())
    for name in tables:
        assert (folder / "with" / "tables" / name).read_bytes() == (folder / "without" / "tables" / name).read_bytes()
    assert "n_outliers" in (folder / "without" / "tables" / "evg_auroc.csv").read_text()
