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
def detectors() -> None:
    @farout.register
    class Exposed(farout.Detector):
        """Scores by the mean brightness of the outliers that it has seen, and by its seed."""

        name = "exposed"

        def fit(self, train, *, val=None, outliers=None, seed=0):  # type: ignore[no-untyped-def, override]
            self.seen = 0 if outliers is None else len(outliers)
            self.seed = seed

        def score(self, images: torch.Tensor) -> torch.Tensor:
            return images.mean((1, 2, 3)) + 1000 * self.seen + 10 * self.seed

    @farout.register
    class Sober(farout.Detector):
        """Takes neither outliers nor a seed."""

        name = "sober"

        def fit(self, train: farout.ImageSet) -> None:  # type: ignore[override]
            pass

        def score(self, images: torch.Tensor) -> torch.Tensor:
            return images.mean((1, 2, 3))


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
    with pytest.raises(ValueError, match="no detector of the study exposed learns from outliers"):
        from_spec(study(detectors=["sober"], validation_outliers={"name": "noise", "limit": 32}))


def test_a_detector_whose_fit_takes_a_seed_is_fitted_once_per_seed(tmp_path: Path) -> None:
    result = farout.run(study(seeds=[3, 5]), tmp_path)
    assert len(result.outcome.done) == 6  # two fits, two sets each
    found = scores(tmp_path)
    sets = {outliers for _, outliers in found}
    assert found.keys() == {(seed, outliers) for seed in ("3", "5") for outliers in sets}
    for name in sets:
        assert found["5", name] - found["3", name] == pytest.approx(20, abs=1e-4)
    assert sorted(result.table("clean")["seed"].astype(int)) == [3, 5]


@pytest.mark.parametrize("changes", [{"detectors": ["sober"]}, {"inliers": {"test": {"name": "toy", "limit": 20}}}])
def test_a_detector_that_takes_no_seed_is_fitted_for_the_first(changes: dict[str, Any]) -> None:
    first, second = from_spec(study(seeds=[3, 5], **changes)).trials
    assert [len(trial.subjects) for trial in (first, second)] == [1, 0]
