"""Trained detectors that read images, in a study: the outliers and the seeds that reach their `fit`."""

from pathlib import Path
from typing import Any

import pytest
import torch

import farout
from farout.study.results import Results
from farout.study.spec import StudySpec
from farout.study.study import from_spec


@pytest.fixture(autouse=True)
def trained() -> type[farout.Detector]:
    @farout.register
    class Exposed(farout.Detector):
        """Scores by the mean brightness of the outliers that it has seen, and by its seed."""

        name = "exposed"

        def fit(self, train, *, val=None, outliers=None, seed=0):  # type: ignore[no-untyped-def, override]
            self.seen = 0 if outliers is None else len(outliers)
            self.seed = seed

        def score(self, images: torch.Tensor) -> torch.Tensor:
            return images.mean((1, 2, 3)) + 1000 * self.seen + 10 * self.seed

    return Exposed


def study(**changes: Any) -> StudySpec:
    splits = {"train": {"name": "toy", "split": "train", "limit": 80}, "val": {"name": "toy", "split": "val"}}
    spec = {
        "name": "exposed",
        "inliers": {**splits, "test": {"name": "toy", "limit": 20}},
        "outliers": [{"name": "toy", "split": "test/ood_cls", "limit": 10}],
        "detectors": ["exposed"],
    }
    return StudySpec.model_validate({**spec, **changes})


def scores(out: Path) -> dict[tuple[str, str], float]:
    """The first score of every set, by seed and set."""
    found = Results(out)
    return {
        (row.tags["seed"], row.tags.get("outliers", "")): float(found.scores(row)[0]) for row in found.done("clean")
    }


def test_validation_outliers_reach_a_trained_detector(tmp_path: Path) -> None:
    given = {"name": "noise", "limit": 32}
    assert not farout.run(study(validation_outliers=given), tmp_path).outcome.failed
    assert all(32_000 < score < 32_001 for score in scores(tmp_path).values())


def test_outliers_that_no_detector_takes_are_refused() -> None:
    @farout.register
    class Sober(farout.Detector):
        name = "sober"

        def fit(self, train: farout.ImageSet) -> None:  # type: ignore[override]
            pass

    with pytest.raises(ValueError, match="no detector of the study exposed learns from outliers"):
        from_spec(study(detectors=["sober"], validation_outliers={"name": "noise", "limit": 32}))
