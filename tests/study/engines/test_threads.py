"""The threads that torch has in this process change no byte of a result: workers have one, and so has inline work."""

from pathlib import Path

import pytest

import farout
from farout.files import files_in
from farout.processes import torch_threads
from farout.study.spec import StudySpec

PLUGIN = '''
import torch
import farout


@farout.register
class Sums(farout.Detector):
    """Adds up so many numbers that torch splits the sum between its threads, whose number rounding depends on."""

    name = "sums"

    def fit(self, train):
        self.images = train.batch(range(len(train)))
        self.total, self.threads = self.images.flatten().sum(), torch.get_num_threads()

    def score(self, images):
        return images.mean((1, 2, 3)) + self.total + self.images.flatten().sum() + torch.get_num_threads()
'''
SPEC = {
    "name": "threads",
    "inliers": {"train": {"name": "toy", "split": "train", "limit": 80}, "test": {"name": "toy", "limit": 70}},
    "outliers": [{"name": "noise", "limit": 20}],
    "detectors": ["sums"],
}


@pytest.fixture
def plugin(tmp_path: Path) -> str:
    path = tmp_path / "sums.py"
    path.write_text(PLUGIN)
    return str(path)


def stored(root: Path) -> dict[str, bytes]:
    files = (path for path in files_in(root / "cells") if path.name != "record.json")
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def test_results_do_not_depend_on_the_threads_of_this_process(plugin: str, tmp_path: Path) -> None:
    spec, found = StudySpec.model_validate(SPEC), []
    with torch_threads(2):
        for workers in (0, 2):
            outcome = farout.run(spec, tmp_path / str(workers), workers=workers, plugins=(plugin,)).outcome
            assert not outcome.failed
            found.append(stored(tmp_path / str(workers)))
    assert len(found[0]) == 5  # a state, and scores and examples of two sets
    assert found[0] == found[1]
