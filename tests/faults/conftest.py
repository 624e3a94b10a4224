"""A finished reference run of a tiny study, made in this process, which every test copies."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

import farout
from farout.faults import Bench
from helpers.written_runs import lenet_weights

STUDY = """
name: tiny
inliers: {test: {name: toy, limit: 70}, train: {name: toy, split: train, limit: 16}}
outliers: [{name: noise, limit: 8}]
networks: [{name: lenet, weights: lenet.safetensors}]
detectors: [msp, {name: knn, k: 3}]
"""


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    lenet_weights(folder)
    (folder / "study.yaml").write_text(STUDY)
    assert not farout.run(folder / "study.yaml", folder / "reference").outcome.failed
    return folder


@pytest.fixture
def bench(finished: Path, tmp_path: Path) -> Bench:
    """A bench whose reference is there already."""
    folder = shutil.copytree(finished, tmp_path / "bench")
    return Bench(folder, folder / "study.yaml", workers=0)


@pytest.fixture
def rng() -> random.Random:
    return random.Random(0)
