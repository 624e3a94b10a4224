"""Trained detectors that read images, in a study: the outliers and the seeds that reach their `fit`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import farout
from farout.study.results import Results
from farout.study.spec import StudySpec
from farout.study.study import from_spec
from farout.training import files
from helpers.tiny_detectors import Tiny


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


AUXILIARY = {"name": "noise", "limit": 24}


def tiny(**changes: Any) -> StudySpec:
    """A study of a detector that learns from auxiliary outliers, and of one that takes none."""
    return study(**{"detectors": ["tiny", "sober"], "auxiliary_outliers": AUXILIARY, "budget": "quick"} | changes)


@pytest.fixture
def registered() -> None:
    farout.register(Tiny)


def labels(spec: StudySpec) -> list[str]:
    return [subject.label for subject in from_spec(spec).trials[0].subjects]


@pytest.mark.usefixtures("registered")
def test_the_preset_is_that_of_the_budget_unless_it_is_given() -> None:
    both = ["tiny", {"name": "tiny", "preset": "full"}, {"name": "tiny", "label": "mine"}]
    assert labels(tiny(detectors=both)) == ["tiny (small)", "tiny (full)", "mine"]
    assert labels(tiny(detectors=["tiny"], budget="standard")) == ["tiny (small)"]
    assert labels(tiny(detectors=["tiny"], budget="full")) == ["tiny (full)"]
    changed = {"name": "tiny", "width": 5, "training": {"epochs": 3}}
    assert labels(tiny(detectors=["tiny", changed])) == ["tiny (small)", "tiny (small, width=5, epochs=3)"]
    assert from_spec(tiny()).cuts == ["the papers' settings (preset: full) of tiny: preset small"]


@pytest.mark.usefixtures("registered")
def test_auxiliary_outliers_reach_the_detectors_that_learn_from_them(tmp_path: Path) -> None:
    gray = {"name": "noise", "limit": 10, "options": {"side": 28, "channels": 1}}
    result = farout.run(tiny(auxiliary_outliers=[AUXILIARY, gray]), tmp_path)
    assert not result.outcome.failed
    lines = result.table("fitted").set_index("fitted")[["training", "auxiliary", "extra_data"]].fillna("")
    assert lines.loc["tiny (small)"].tolist() == [80, 34, "noise + noise"]
    assert lines.loc["sober"].tolist() == [80, 0, ""]
    assert "tiny (small) †" in repr(result)
    assert "†: learned from outliers too" in repr(result)
    assert "sober †" not in repr(result)
    assert set(result.table("clean")["detector"]) == {"tiny (small)", "sober"}
    page = result.report(tmp_path).read_text()
    assert "tiny (small) †" in page


def test_weights_that_learned_from_no_outliers_are_not_marked(tmp_path: Path) -> None:
    """ceda takes noise without outliers, and says so in its file; an older file does not tell, and is marked."""
    file, few = tmp_path / "ceda.safetensors", {"epochs": 1}
    farout.detectors.CEDA(training=few).fit(farout.load("toy", "train", limit=64)).save(file)
    spec = tiny(detectors=[{"name": "ceda", "weights": str(file)}], auxiliary_outliers=[])
    assert [subject.extra_data for subject in from_spec(spec).trials[0].subjects] == [""]
    detector = farout.detectors.load(file)
    files.save(file, "detector", detector.state_dict(), files.Header("ceda", 1, detector.stored_params))
    assert [subject.extra_data for subject in from_spec(spec).trials[0].subjects] == ["outliers of its training"]


@pytest.mark.usefixtures("registered")
def test_auxiliary_outliers_are_part_of_the_identity_of_those_that_learn_from_them() -> None:
    def ids(spec: StudySpec) -> list[str]:
        return [cell.id for subject in from_spec(spec).trials[0].subjects for cell in subject.requires]

    one, other = ids(tiny()), ids(tiny(auxiliary_outliers={"name": "noise", "limit": 25}))
    assert one[0] != other[0]
    assert one[1] == other[1]


@pytest.mark.usefixtures("registered")
def test_auxiliary_outliers_that_cannot_be_learned_from_are_refused() -> None:
    with pytest.raises(ValueError, match=r"tiny learns from outliers and got none: .* in a study auxiliary_outliers:"):
        from_spec(tiny(auxiliary_outliers=[]))
    with pytest.raises(ValueError, match="auxiliary_outliers: no detector of the study exposed learns from outliers"):
        from_spec(tiny(detectors=["sober"]))
    tested = {"name": "toy", "split": "test/ood_cls", "limit": 4}
    with pytest.raises(ValueError, match="auxiliary_outliers: 4 of them are in the outlier set 'toy:ood_cls'"):
        from_spec(tiny(auxiliary_outliers=[AUXILIARY, tested]))
    with pytest.raises(ValueError, match=r"tiny \(small\) must be trained, and the inliers have no train split"):
        from_spec(tiny(inliers={"test": {"name": "toy", "limit": 20}}))
    with pytest.raises(ValueError, match="takes square images with 1 or 3 channels and a side of 28, 32, 64, got 3"):
        from_spec(tiny(inliers={"name": "toy", "options": {"side": 16}}))


@pytest.mark.usefixtures("registered")
def test_auxiliary_outliers_of_another_file_with_tested_images_are_refused(tmp_path: Path) -> None:
    drawn = np.random.default_rng(0).integers(0, 256, (2, 20, 32, 32, 3), dtype=np.uint8)
    tested, learned = drawn
    learned[[3, 8]] = tested[[0, 1]]
    np.savez(tmp_path / "tested.npz", images=tested)
    np.savez(tmp_path / "learned.npz", images=learned)
    files_ = {name: str(tmp_path / f"{name}.npz") for name in ("tested", "learned")}
    with pytest.raises(ValueError, match="auxiliary_outliers: 2 of them are in the outlier set 'tested'"):
        from_spec(tiny(auxiliary_outliers=[AUXILIARY, files_["learned"]], outliers=[files_["tested"]]))
    inliers = {"train": {"name": "toy", "limit": 80}, "test": files_["tested"]}
    with pytest.raises(ValueError, match="auxiliary_outliers: 2 of them are among the inliers that are tested"):
        from_spec(tiny(auxiliary_outliers=files_["learned"], inliers=inliers, outliers=["noise"]))
    inliers = {"train": {"name": "toy", "split": "train", "limit": 80}, "test": {"name": "toy", "limit": 20}}
    with pytest.raises(ValueError, match="auxiliary_outliers: 20 of them are among the inliers that are tested"):
        from_spec(tiny(auxiliary_outliers={"name": "toy", "limit": 40}, inliers=inliers))


@pytest.mark.usefixtures("registered")
def test_weights_of_a_file_are_used_without_training(tmp_path: Path) -> None:
    train, val = (farout.load("toy", split, limit=80) for split in ("train", "val"))
    trained = Tiny(preset="full").fit(train, val=val, auxiliary_outliers=farout.load("noise", limit=24), seed=3)
    trained.save(tmp_path / "tiny.safetensors")
    spec = tiny(detectors=[{"name": "tiny", "weights": str(tmp_path / "tiny.safetensors")}], seeds=[1, 2],
                auxiliary_outliers=[])  # fmt: skip
    result = farout.run(spec, tmp_path / "run")
    assert not result.outcome.failed
    expected = trained.score(farout.load("toy", limit=20).batch(range(20))).detach()
    found = {key: value for key, value in scores(tmp_path / "run").items() if key[1] == ""}
    assert found == {("1", ""): float(expected[0])}
    assert "tiny (full) †" in repr(result), "it was trained with outliers"
