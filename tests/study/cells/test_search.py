"""Searches as cells: the same finds however they are run, interrupted and continued."""

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save

import farout
from farout.networks import create, load_weights, save_weights
from farout.protocols import plan
from farout.search import MetropolisHastings
from farout.study.cells import search as searching
from farout.study.cells.score import ScoreCell
from farout.study.cells.search import FOUND, SearchWork
from farout.study.engines.executor import Context, Executor, Task
from farout.study.engines.local import LocalExecutor
from farout.study.engines.scheduler import Scheduler
from farout.study.results import Results, Row
from farout.study.sources.found import FoundImages
from farout.study.spec import StudySpec
from farout.study.store import Store
from farout.study.study import from_spec
from farout.variations import Color, Composed
from helpers.counting import Counting

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


def test_workers_give_the_same_bytes_and_tell_how_they_get_on(weights, whole, tmp_path):
    listener = Counting()
    farout.run(spec(weights), tmp_path, workers=2, progress=listener)
    assert content(tmp_path) == content(whole)
    assert listener.swept == listener.announced


def test_progress_is_told_within_a_chunk_and_adds_up(weights, tmp_path):
    listener = Counting()
    farout.run(spec(weights, ["msp"], control=False), tmp_path, progress=listener)
    assert listener.swept == listener.announced
    searched = [images for title, images in listener.steps if title.startswith("search") and images]
    assert searched == [256] * (1 + STEPS) + [CHAINS - 256] * (1 + STEPS)  # both chunks, at every step


def searched(weights, **evg):
    """The work of the search against msp."""
    entries = plan(from_spec(spec(weights, ["msp"], **evg)))
    (work,) = [entry.cell.work([entry.cell]) for entry in entries if entry.tags["role"] == "search"]
    return work


class Listening:
    """A listener that remembers what it is told."""

    def __init__(self):
        self.told = []

    def __getattr__(self, kind):
        return lambda *content: self.told.append((kind, *content))


def test_leaving_the_pool_ends_chunks_at_their_next_step(weights, whole, tmp_path):
    """Ctrl-C does not wait for chains to end: they are kept where they are."""
    shutil.copytree(whole, tmp_path / "run")
    store = Store(tmp_path / "run").open()
    work, listener = searched(weights, steps=2_000), Listening()
    pool = LocalExecutor(Context(listener, store, torch.device("cpu"), store.running(), 1))
    pool.submit(Task(0, work, work.chunks[1]))
    while not any(kind == "progressed" for kind, *_ in listener.told):
        pool.wait(0.5)
    pool.close(stopped=True)
    assert not any(kind == "computed" for kind, *_ in listener.told)
    assert store.kept(work.id, "walk-chains-256-300")["steps"] < 2_000
    assert not list(store.running().iterdir())


class Refusing(Executor):
    """An executor whose first task fails while a second one waits."""

    slots = 2

    def __init__(self, scheduler):
        self.scheduler, self.tasks, self.canceled = scheduler, [], set()

    def submit(self, task):
        self.tasks.append(task)

    def wait(self, seconds):
        if not self.canceled:
            self.scheduler.failed(self.tasks[0].number, "ValueError: no")
        else:
            self.scheduler.computed(self.tasks[1].number, {})  # it was too late to leave it out

    def cancel(self, numbers):
        self.canceled |= set(numbers)

    def close(self, stopped):
        pass


def test_chunks_of_work_that_has_failed_are_left_out(weights, whole, tmp_path):
    shutil.copytree(whole, tmp_path / "run")
    work, listener = searched(weights, steps=STEPS + 1), Counting()
    run = Scheduler([work], Store(tmp_path / "run"), torch.device("cpu"), listener, {need.id for need in work.requires})
    pool = Refusing(run)
    run.run(pool, pool)
    assert pool.canceled == {pool.tasks[1].number}
    assert run.failures == {work.id: "msp on lenet: ValueError: no"}
    assert listener.swept == work.total_cost


@pytest.mark.parametrize("stop", [1, 4, 7])
def test_interrupted_in_the_middle_of_a_chunk_and_continued(weights, whole, tmp_path, monkeypatch, stop):
    """Twice; what was kept is not searched again, and the finds are the same."""
    calls = []
    original = MetropolisHastings.step

    def step(self, *args):
        calls.append(1)
        if len(calls) in (stop, stop + 3):
            signal.raise_signal(signal.SIGINT)
        return original(self, *args)

    monkeypatch.setattr(MetropolisHastings, "step", step)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            farout.run(spec(weights), tmp_path)
    assert list(tmp_path.glob("partial/*/walk-*.safetensors"))
    listener = Counting()
    farout.run(spec(weights), tmp_path, progress=listener)
    assert listener.swept == listener.announced
    chunks = 2 * (2 + 1)  # two detectors; the outliers fill two chunks, the inliers one
    assert len(calls) == 2 + chunks * STEPS
    assert content(tmp_path) == content(whole)
    assert not list(tmp_path.glob("partial/*"))


@pytest.mark.parametrize("left", [b"cut off", save({"steps": np.array(3), "state:speed": np.zeros(256)})])
def test_a_chunk_that_cannot_be_read_is_searched_again(weights, whole, tmp_path, left):
    """A damaged file, and one that another version of farout may have left."""
    shutil.copytree(whole, tmp_path / "run")
    cell = rows(whole, "search")["msp"].cell
    shutil.rmtree(tmp_path / "run" / "cells" / cell)
    (Store(tmp_path / "run").scratch(cell) / "walk-chains-0-256.safetensors").write_bytes(left)
    farout.run(spec(weights), tmp_path / "run")
    assert content(tmp_path / "run") == content(whole)


def test_what_a_dying_worker_takes_away_need_not_be_swept(tmp_path, monkeypatch):
    store = Store(tmp_path).open()
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter([self / "partial" / ".gone"]))
    with store.lock():
        assert not list((tmp_path / "partial").iterdir())


def test_a_detector_that_fails_in_the_search_fails_alone(weights, tmp_path):
    @farout.register
    class DarkIsNaN(farout.Detector):
        name = "dark_is_nan"

        def score(self, images):
            mean = images.mean((1, 2, 3))
            return torch.where(mean < 0.25, torch.nan, mean)

    listener = Counting()
    result = farout.run(spec(weights, ["msp", "dark_is_nan"]), tmp_path, progress=listener)
    assert listener.swept == listener.announced
    failed = [one.row for one in Results(tmp_path).failures().values()]
    assert {row.tags["detector"] for row in failed if row.tags["role"] == "search"} == {"dark_is_nan"}
    assert any("dark_is_nan gave" in why and "color" in why for why in result.outcome.failed.values())
    assert "msp" in rows(tmp_path, "search")


def test_what_cannot_be_shown_fails_alone(weights, tmp_path, monkeypatch):
    def unshown(images):
        raise ValueError("no pictures today")

    monkeypatch.setattr(searching, "thumbnails", unshown)
    result = farout.run(spec(weights, ["msp"], chains=20, transfer=False), tmp_path)
    assert len(result.outcome.failed) == 2
    assert all(why.startswith("msp on lenet: ValueError: no pictures today") for why in result.outcome.failed.values())
    assert not rows(tmp_path, "search")
    assert rows(tmp_path, "outliers")


def test_what_decides_a_search_is_in_its_identity(weights):
    first = searched(weights).id
    assert searched(weights).id == first
    changes = [
        {"steps": STEPS + 1},
        {"chains": CHAINS - 1},
        {"methods": [{"name": "mh", "temperature": 2}]},
        {"variations": [{"name": "color", "hue": [-0.1, 0.1]}]},
        {"standardize_on": "test"},
    ]
    for change in changes:
        assert searched(weights, **change).id != first, change
    assert searched(weights, variations=[{"name": "color", "label": "hues"}]).id == first


def test_a_variation_that_cannot_travel_stays_here(weights, monkeypatch):
    class Local(farout.Variation):
        dim = 1

        def decode(self, z, base):
            return base

    (cell, *_) = [e.cell for e in plan(from_spec(spec(weights))) if isinstance(e.cell, searching.SearchCell)]

    def travels(variation):
        changed = dataclasses.replace(cell, variation=variation)
        found = ScoreCell(cell.subject, FoundImages(changed, (3, 32, 32)))
        assert SearchWork((changed,)).portable == found.work([found]).portable
        return SearchWork((changed,)).portable

    assert travels(cell.variation)
    assert not travels(Local())
    Local.__module__, Local.__qualname__ = "__main__", "Local"
    monkeypatch.setattr(sys.modules["__main__"], "Local", Local, raising=False)
    assert not travels(Local())  # a worker's main module is another
    assert not travels(Composed(of=[Local(), Color()]))


PLUGIN = """
import time
import farout
from farout.study.cells import search as searching

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
protocols: [{name: evg, variations: [color], chains: 300, steps: 15, control: false}]
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_killed_within_chunks_and_continued_without_workers_gives_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(searching, "KEEP_SECONDS", searching.KEEP_SECONDS)  # the plugin changes it here too
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text(STUDY)
    Path("slow.py").write_text(PLUGIN)
    command = [sys.executable, "-m", "farout", "run", "study.yaml", "--out", "run", "--plugin", "slow.py"]
    process = subprocess.Popen([*command, "--workers", "2"], env={**os.environ, "OMP_NUM_THREADS": "1"})
    while not list(Path("run").glob("partial/*/walk-*")):
        assert process.poll() is None, "it ended before anything was kept"
        time.sleep(0.01)
    process.kill()
    process.wait(60)
    for out in ("run", "whole"):
        farout.run("study.yaml", out, plugins=("slow.py",))
    expected, found = content(tmp_path / "whole"), content(tmp_path / "run")
    assert expected.keys() == found.keys()
    assert [name for name in expected if expected[name] != found[name]] == []
