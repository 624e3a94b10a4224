"""A detector that reads images is fitted once: all chunks, sets and later runs are scored by one model."""

import logging
from pathlib import Path

import numpy as np
import pytest

import farout
from farout.study.results import Results
from farout.study.spec import DataSpec, StudySpec

PLUGIN = '''
import numpy as np
import torch
import farout

FITS = []


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


def _noise() -> DataSpec:
    return DataSpec(name="noise", limit=70)
