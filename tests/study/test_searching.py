"""Searches as cells: the same finds however they are run, interrupted and continued."""

import dataclasses
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import farout
from farout.networks import create, load_weights, save_weights
from farout.protocols import plan
from farout.search import MetropolisHastings
from farout.study import engine, searching
from farout.study.results import Results, Row
from farout.study.searching import FOUND, SearchWork
from farout.study.spec import StudySpec
from farout.study.study import from_spec
from farout.variations import Color

CHAINS, STEPS = 300, 6


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "lenet.safetensors"
    save_weights(create("lenet", 4, 32, seed=3), path)
    return path


def spec(weights, detectors=("msp", "knn"), **evg) -> StudySpec:
    return StudySpec.model_validate(
        {
            "name": "small",
            "inliers": {split: {"name": "toy", "split": split, "limit": 150} for split in ("train", "val", "test")},
            "outliers": [{"name": "toy", "split": "test/ood_cls", "limit": CHAINS}],
            "networks": [{"name": "lenet", "weights": str(weights), "mean": [0.5], "std": [0.25]}],
            "detectors": list(detectors),
            "budget": "full",
            "protocols": [{"name": "evg", "variations": ["color"], "chains": CHAINS, "steps": STEPS, **evg}],
        }
    )


def rows(root, role: str) -> dict[str, Row]:
    return {row.tags["detector"]: row for row in Results(root).done("evg") if row.tags["role"] == role}


def content(out: Path) -> dict[str, bytes]:
    """Everything that was computed; not the records, which carry times."""
    return {f"{p.parent.name}/{p.name}": p.read_bytes() for p in out.glob("cells/*/*") if p.name != "record.json"}


@pytest.fixture(scope="module")
def whole(weights, tmp_path_factory):
    """A run that nothing disturbed."""
    root = tmp_path_factory.mktemp("whole")
    farout.run(spec(weights), root)
    return root


@pytest.fixture
def panel(weights):
    network = create("lenet", 4, 32, mean=0.5, std=0.25)
    load_weights(network, weights)
    splits = [farout.load("toy", split, limit=150) for split in ("train", "val")]
    return farout.Panel(network, ["msp", "knn"]).fit(*splits)


def test_a_search_finds_what_worst_case_finds(whole, panel):
    base = farout.load("toy", "test/ood_cls", limit=CHAINS)
    for name, row in rows(whole, "search").items():
        found = farout.worst_case(panel[name], "color", base, steps=STEPS, seed=0)
        store = Results(whole).store
        assert np.array_equal(store.scores(row.cell), found.scores)
        kept = store.arrays(row.cell, FOUND)
        assert np.array_equal(kept["latents"], found.latents.numpy())
        assert np.array_equal(kept["trace"], found.trace[:, kept["queries"] - 1])
        for column in ("start", "last", "accepted", "exploration", "stuck"):
            assert np.array_equal(store.column(row.cell, column), getattr(found, column))


def test_what_was_found_is_scored_by_the_others(whole, panel):
    base = farout.load("toy", "test/ood_cls", limit=CHAINS)
    found = farout.worst_case(panel["msp"], "color", base, steps=STEPS, seed=0)
    row = rows(whole, "transfer")["knn"]
    assert row.tags["against"] == "msp"
    assert np.array_equal(Results(whole).scores(row), panel.score(found.images)["knn"])


def test_the_pictures_are_of_the_lowest_and_of_the_first_chains(whole):
    store, row = Results(whole).store, rows(whole, "search")["msp"]
    examples, scores = store.arrays(row.cell, "examples.safetensors"), store.scores(row.cell)
    assert np.array_equal(examples["lowest"], np.argsort(scores, kind="stable")[:8])
    assert np.array_equal(examples["first"], np.arange(8))
    base = farout.load("toy", "test/ood_cls", limit=CHAINS)
    latents = torch.from_numpy(store.arrays(row.cell, FOUND)["latents"])
    for kind in ("lowest", "first"):
        images = base.batch(examples[kind])
        decoded = Color().decode(latents[torch.from_numpy(examples[kind])], images)
        for key, expected in (("images", decoded), ("bases", images)):
            bytes_ = expected.mul(255).round().byte().permute(0, 2, 3, 1).numpy()
            assert np.array_equal(examples[f"{kind}_{key}"], bytes_)


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_give_the_same_bytes(weights, whole, tmp_path, workers):
    farout.run(spec(weights), tmp_path, workers=workers)
    assert content(tmp_path) == content(whole)


class Counting:
    """A watcher that adds up."""

    def __init__(self) -> None:
        self.announced, self.steps = 0, []

    def total(self, images: int) -> None:
        self.announced += images

    def advance(self, images: int, title: str) -> None:
        self.steps.append((title, images))


@pytest.mark.parametrize("workers", [0, 2])
def test_progress_is_told_within_a_chunk_and_adds_up(weights, tmp_path, workers, monkeypatch):
    monkeypatch.setattr(engine, "LISTEN_SECONDS", 0.01)
    watcher = Counting()
    farout.run(spec(weights, ["msp"], control=False), tmp_path, workers=workers, watcher=watcher)
    assert sum(images for _, images in watcher.steps) == watcher.announced
    searched = [images for title, images in watcher.steps if title.startswith("search") and images]
    assert sum(searched) == CHAINS * (1 + STEPS)
    if not workers:  # both chunks, at every step
        assert searched == [256] * (1 + STEPS) + [CHAINS - 256] * (1 + STEPS)


@pytest.mark.parametrize("stop", [2, 4, 7])
def test_interrupted_in_the_middle_of_a_chunk_and_continued(weights, whole, tmp_path, monkeypatch, stop):
    """What was kept is not searched again, and the finds are the same."""
    calls = []
    original = MetropolisHastings.step

    def step(self, *args):
        calls.append(1)
        if len(calls) == stop:
            raise KeyboardInterrupt
        return original(self, *args)

    monkeypatch.setattr(MetropolisHastings, "step", step)
    with pytest.raises(KeyboardInterrupt):
        farout.run(spec(weights), tmp_path)
    assert list(tmp_path.glob("partial/*/walk-*.safetensors"))
    farout.run(spec(weights), tmp_path)
    chunks = 2 * (2 + 1)  # two detectors; the outliers fill two chunks, the inliers one
    assert len(calls) == 1 + chunks * STEPS
    assert content(tmp_path) == content(whole)
    assert not list(tmp_path.glob("partial/*"))


def test_a_damaged_chunk_is_searched_again(weights, whole, tmp_path, monkeypatch):
    original = MetropolisHastings.step

    def broken(self, state, *args):
        raise KeyboardInterrupt

    monkeypatch.setattr(MetropolisHastings, "step", broken)
    with pytest.raises(KeyboardInterrupt):
        farout.run(spec(weights), tmp_path)
    (kept,) = tmp_path.glob("partial/*/walk-*.safetensors")
    kept.write_bytes(kept.read_bytes()[:100])
    monkeypatch.setattr(MetropolisHastings, "step", original)
    farout.run(spec(weights), tmp_path)
    assert content(tmp_path) == content(whole)


def test_a_detector_that_fails_in_the_search_fails_alone(weights, tmp_path):
    @farout.register
    class DarkIsNaN(farout.Detector):
        name = "dark_is_nan"

        def score(self, images):
            mean = images.mean((1, 2, 3))
            return torch.where(mean < 0.25, torch.nan, mean)

    study = spec(weights, ["msp", "dark_is_nan"])
    result = farout.run(study, tmp_path)
    failed = [row for row, _ in Results(tmp_path).failures().values()]
    assert {row.tags["detector"] for row in failed if row.tags["role"] == "search"} == {"dark_is_nan"}
    assert any("dark_is_nan gave" in why and "color" in why for why in result.outcome.failed.values())
    assert "msp" in rows(tmp_path, "search")


def test_what_decides_a_search_is_in_its_identity(weights):
    def searched(**changes):
        entries = plan(from_spec(spec(weights, ["msp"], **changes)))
        (found,) = [entry.cell.id for entry in entries if entry.tags["role"] == "search"]
        return found

    first = searched()
    assert searched() == first
    changes = [
        {"steps": STEPS + 1},
        {"chains": CHAINS - 1},
        {"methods": [{"name": "mh", "temperature": 2}]},
        {"variations": [{"name": "color", "hue": [-0.1, 0.1]}]},
        {"standardize_on": "test"},
    ]
    for change in changes:
        assert searched(**change) != first, change
    assert searched(variations=[{"name": "color", "label": "hues"}]) == first


def test_a_variation_that_cannot_travel_stays_here(weights):
    class Local(farout.Variation):
        dim = 1

        def decode(self, z, base):
            return base

    (cell, *_) = [e.cell for e in plan(from_spec(spec(weights))) if isinstance(e.cell, searching.SearchCell)]
    assert SearchWork((cell,)).portable
    assert not SearchWork((dataclasses.replace(cell, variation=Local()),)).portable


PLUGIN = """
import time
import farout
from farout.study import searching

searching.KEEP_SECONDS = 0.05


@farout.register
class Slow(farout.Detector):
    name = "slow"

    def score(self, images):
        time.sleep(0.02)
        return images.double().mean((1, 2, 3))
"""
STUDY = """
inliers: {test: {name: toy, limit: 100}}
outliers: [{name: toy, split: test/ood_cls, limit: 300}]
detectors: [slow]
budget: full
protocols: [{name: evg, variations: [color, affine], chains: 300, steps: 30}]
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_killed_within_chunks_and_continued_gives_the_same_bytes(tmp_path):
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "slow.py").write_text(PLUGIN)

    def start(out: Path) -> subprocess.Popen:
        command = [sys.executable, "-m", "farout", "run", "study.yaml", "--out", str(out), "--workers", "2"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen([*command, "--plugin", "slow.py"], cwd=tmp_path, env=environment)

    assert start(tmp_path / "whole").wait(300) == 0
    moments, within = random.Random(0), 0
    while within < 4:
        process = start(tmp_path / "run")
        known = set((tmp_path / "run").glob("partial/*/walk-*"))
        while process.poll() is None and not set((tmp_path / "run").glob("partial/*/walk-*")) - known:
            time.sleep(0.01)
        time.sleep(moments.uniform(0, 0.3))
        process.kill()
        process.wait(60)
        kept = list((tmp_path / "run").glob("partial/*/walk-*"))
        if not kept:
            break
        within += 1
    assert within >= 2, "the kills came too late"
    assert start(tmp_path / "run").wait(300) == 0
    expected, found = content(tmp_path / "whole"), content(tmp_path / "run")
    assert expected.keys() == found.keys()
    assert [name for name in expected if expected[name] != found[name]] == []
