"""A detector that reads images is fitted once: all chunks, sets and later runs are scored by one model."""

import logging
import random
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

import farout
from farout.plugins import load_plugin
from farout.progress import Event
from farout.study.cells import fit_detector
from farout.study.results import Results
from farout.study.spec import DataSpec, StudySpec
from farout.study.store import Store
from farout.study.study import from_spec

PLUGIN = '''
import os
import random
import signal

import numpy as np
import torch
import farout
from farout.training import Recipe, Task
from farout.training import fit as train_task


@farout.register
class Unseeded(farout.Detector):
    """Every fit draws another direction."""

    name = "unseeded"

    def __init__(self):
        self.net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 1, bias=False))

    def fit(self, train, *, val=None, outliers=None, seed=0):
        generator = torch.Generator()
        generator.seed()
        with torch.no_grad():
            self.net[1].weight.normal_(generator=generator)
        self.scale = float(len(val))
        self.parts = [np.array([seed, len(train)]), {"drawn": torch.ones(2)}]

    def score(self, images):
        return self.net(images)[:, 0] / self.scale


@farout.register
class Projection(farout.Detector):
    """Nothing to fit, but every object draws another direction."""

    name = "projection"

    def __init__(self):
        generator = torch.Generator()
        generator.seed()
        self.direction = torch.randn(3, generator=generator)

    def score(self, images):
        return images.mean((2, 3)) @ self.direction


class Fill(Task):
    """Task whose loss is the distance of the model's output from the mean image."""

    identity = "fill"

    def __init__(self, model):
        self.modules = {"model": model}

    def loss(self, player, batch, context):
        with open(os.environ["STEPS"], "a") as steps:
            if steps.write("x") and steps.tell() == int(os.environ["STOP_AFTER"]):
                signal.raise_signal(signal.SIGINT)
        return (self.modules["model"](batch.images) - batch.images.mean()).square().mean()


@farout.register
class GlobalDraws(farout.Detector):
    """Draws from the global generators of torch, numpy and Python, when created and when fitted."""

    name = "global_draws"

    def __init__(self):
        self.net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 1))

    def fit(self, train):
        self.weights = torch.rand(3), np.random.rand(3), random.random()
        train_task(Fill(self.net), train, Recipe(epochs=4, batch=20, lr=1e-5, augment="none"))

    @torch.no_grad()
    def score(self, images):
        tensor, array, number = self.weights
        return self.net(images)[:, 0] + images.mean((2, 3)) @ tensor + number * float(array.sum())


class Opaque:
    def __init__(self):
        self.weight = torch.randn(3, generator=farout_generator())


def farout_generator():
    generator = torch.Generator()
    generator.seed()
    return generator


@farout.register
class Unkept(farout.Detector):
    """Detector that learns an object of an unknown class, which cannot be stored."""

    name = "unkept"

    def fit(self, images):
        self.learned = Opaque()

    def score(self, images):
        return (images.mean((2, 3)) * self.learned.weight).sum(1)
'''


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("plugin") / "fits.py"
    path.write_text(PLUGIN)
    return str(path)


def study(*detectors: str) -> StudySpec:
    """Nearly the same images as inliers and as outliers."""
    same = {"name": "toy", "limit": 300}
    splits = {"train": {"name": "toy", "split": "train", "limit": 80}, "val": {"name": "toy", "split": "val"}}
    spec = {"name": "once", "inliers": {**splits, "test": same}, "outliers": [{**same, "limit": 290}]}
    return StudySpec.model_validate({**spec, "detectors": list(detectors)})


def scores(out: Path) -> dict[tuple[str, str], np.ndarray]:
    found = Results(out)
    return {(row.tags["detector"], row.tags.get("outliers", "")): found.scores(row) for row in found.done("clean")}


def same_model(found: dict[tuple[str, str], np.ndarray]) -> bool:
    """Do both sets have the same scores where they have the same images?"""
    inliers, outliers = found.values()
    return np.allclose(inliers[: len(outliers)], outliers, atol=1e-5)  # the last batch is of another size


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", ["unseeded", "unkept", "projection"])
def test_all_chunks_come_from_one_model(plugin, tmp_path, name, workers, caplog):
    """Fitted anew by every worker, a set tested against itself got AUROCs of .66, .00 and 1.00."""
    with caplog.at_level(logging.WARNING, "farout"):
        result = farout.run(study(name), tmp_path / "run", workers=workers, plugins=(plugin,))
    assert not result.outcome.failed
    assert same_model(scores(tmp_path / "run"))
    assert ("attribute learned is a Opaque" in caplog.text) == (name == "unkept")


def test_a_later_run_scores_with_the_state_of_the_first(plugin, tmp_path):
    farout.run(study("unseeded"), tmp_path / "run", plugins=(plugin,))
    first = scores(tmp_path / "run")
    wider = study("unseeded").model_copy(update={"outliers": [*study("unseeded").outliers, _noise()]})
    again = farout.run(wider, tmp_path / "run", plugins=(plugin,))
    assert (len(again.outcome.done), again.outcome.reused) == (1, len(first) + 1)  # the fit is there too
    assert all(np.array_equal(scores(tmp_path / "run")[key], first[key]) for key in first)


def global_states() -> list[object]:
    numpy = np.random.get_state()  # noqa: NPY002
    return [random.getstate(), torch.get_rng_state().tolist(), [str(part) for part in numpy]]


@pytest.fixture
def steps(tmp_path, monkeypatch):
    """File of as many bytes as steps of training were taken."""
    monkeypatch.setenv("STEPS", str(tmp_path / "steps"))
    monkeypatch.setenv("STOP_AFTER", "-1")
    return tmp_path / "steps"


def test_a_fit_that_uses_the_global_generators_is_the_same_in_every_run(plugin, tmp_path, steps):
    """It depends on no numbers that were drawn before, and does not change what is drawn afterwards."""
    farout.run(study("global_draws"), tmp_path / "first", plugins=(plugin,))
    torch.rand(1), random.random(), np.random.rand(1)  # noqa: NPY002
    farout.run(study("global_draws"), tmp_path / "second", plugins=(plugin,))
    first, second = scores(tmp_path / "first"), scores(tmp_path / "second")
    assert len(first) == 2
    assert all(np.array_equal(first[key], second[key]) for key in first)
    (cell,) = from_spec(study("global_draws")).trials[0].subjects[0].requires
    before = global_states()
    cell.fit(Store(tmp_path / "first"))
    cell.fitted(Store(tmp_path / "first"))
    assert global_states() == before


def test_an_interrupted_training_of_an_unseeded_detector_resumes(plugin, tmp_path, steps, monkeypatch):
    farout.run(study("global_draws"), tmp_path / "whole", plugins=(plugin,))
    total = steps.stat().st_size
    assert total == 16
    monkeypatch.setenv("STOP_AFTER", str(total + 12))
    with pytest.raises(KeyboardInterrupt):
        farout.run(study("global_draws"), tmp_path / "run", plugins=(plugin,))
    torch.rand(1), random.random(), np.random.rand(1)  # noqa: NPY002
    farout.run(study("global_draws"), tmp_path / "run", plugins=(plugin,))
    assert steps.stat().st_size < total + 12 + total  # it went on from a checkpoint
    whole, resumed = scores(tmp_path / "whole"), scores(tmp_path / "run")
    assert all(np.array_equal(whole[key], resumed[key]) for key in whole)


def test_another_version_of_the_training_loop_is_another_fit(plugin, monkeypatch):
    load_plugin(Path(plugin))
    ids = set()
    for version in (fit_detector.VERSION, fit_detector.VERSION + 1):
        monkeypatch.setattr(fit_detector, "VERSION", version)
        (cell,) = from_spec(study("global_draws")).trials[0].subjects[0].requires
        ids.add(cell.id)
    assert len(ids) == 2


def test_what_cannot_be_kept_is_computed_again_with_what_is_missing(plugin, tmp_path):
    """Scores of two fits never stand side by side."""
    farout.run(study("unkept"), tmp_path / "run", plugins=(plugin,))
    first = scores(tmp_path / "run")
    assert farout.run(study("unkept"), tmp_path / "run", plugins=(plugin,)).outcome.reused == 3
    wider = study("unkept").model_copy(update={"outliers": [*study("unkept").outliers, _noise()]})
    again = farout.run(wider, tmp_path / "run", plugins=(plugin,))
    assert again.outcome.reused == 0
    second = scores(tmp_path / "run")
    assert same_model({key: second[key] for key in first})


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(("name", "file"), [("unseeded", "state.safetensors"), ("unkept", "record.json")])
def test_results_of_a_damaged_fit_do_not_stand_beside_those_of_the_next(plugin, tmp_path, name, file):
    narrow = study(name).model_copy(update={"outliers": [_noise()]})
    farout.run(narrow, tmp_path / "run", plugins=(plugin,))
    first = scores(tmp_path / "run")[name, ""]
    (cell,) = from_spec(narrow).trials[0].subjects[0].requires
    damage(tmp_path / "run" / "cells" / cell.id / file)
    wider = narrow.model_copy(update={"outliers": [*study(name).outliers, _noise()]})
    again = farout.run(wider, tmp_path / "run", plugins=(plugin,)).outcome
    assert (len(again.damaged), len(again.done), again.reused) == (1, 4, 0)
    second = scores(tmp_path / "run")
    assert same_model({key: second[key] for key in second if key[1] != "noise"})
    if name == "unseeded":  # its fit draws other numbers each time; the other one is kept by this process
        assert not np.allclose(first, second[name, ""])


def test_results_of_a_damaged_fit_that_gives_the_same_state_again_are_kept(plugin, tmp_path, steps):
    farout.run(study("global_draws"), tmp_path / "run", plugins=(plugin,))
    (state,) = (tmp_path / "run").glob("cells/*/state.safetensors")
    damage(state)
    again = farout.run(study("global_draws"), tmp_path / "run", plugins=(plugin,)).outcome
    assert (len(again.damaged), len(again.done), again.reused) == (1, 1, 2)


def test_chunks_of_a_damaged_fit_are_not_resumed(plugin, tmp_path):
    """The run is interrupted after some chunks; then the state that they were scored with is damaged."""
    seen = []

    def interrupt(event: Event) -> None:
        seen.append(event)
        if sum(one.done for one in seen if one.title.startswith("score")) == 128:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        farout.run(study("unseeded"), tmp_path / "run", plugins=(plugin,), progress=interrupt)
    assert list((tmp_path / "run").glob("partial/*/part-*"))
    (state,) = (tmp_path / "run").glob("cells/*/state.safetensors")
    damage(state)
    farout.run(study("unseeded"), tmp_path / "run", plugins=(plugin,))
    assert same_model(scores(tmp_path / "run"))


def _noise() -> DataSpec:
    return DataSpec(name="noise", limit=70)
