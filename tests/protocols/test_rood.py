"""What the protocol rood plans: which images under which shifts, by which detectors, in how many passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import farout
from farout import shifts
from farout.detectors.catalog import catalog
from farout.protocols import cuts, plan
from farout.protocols.rood import INLIERS, Rood
from farout.protocols.rood_setups import PUBLISHED
from farout.shifts.corruption import Corruption
from farout.study.engine import grouped
from farout.study.scoring import ScoreCell
from farout.study.spec import StudySpec
from farout.study.study import Study, from_spec
from written_runs import lenet_weights

SMALL = {split: {"name": "toy", "split": split, "limit": 200} for split in ("train", "val", "test")}


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(lenet_weights(tmp_path_factory.mktemp("weights")))


@pytest.fixture
def study(weights: str) -> Any:
    def make(detectors: Any = ("msp", "dn2"), budget: str = "quick", outliers: Any = None, **rood: Any) -> Study:
        spec = {
            "name": "small",
            "inliers": SMALL,
            "outliers": [{"name": "noise", "limit": 40}] if outliers is None else outliers,
            "networks": [{"name": "lenet", "weights": weights}],
            "detectors": list(detectors),
            "protocols": [{"name": "rood", **rood}],
            "budget": budget,
        }
        return from_spec(StudySpec.model_validate(spec))

    return make


def shifted(entries: Any) -> list[Any]:
    return [entry for entry in entries if entry.tags["setup"]]


def test_the_papers_setups_are_all_shifts_there_are() -> None:
    assert {name for names in PUBLISHED.values() for name in names} == set(shifts.names())
    made = Rood().setups
    assert {name: len(found) for name, found in made.items()} == {"A": 5, "C": 95}
    assert all(isinstance(shift, Corruption) for shift in made["C"])
    assert not any(isinstance(shift, Corruption) for shift in made["A"])


def test_ones_own_setups() -> None:
    made = Rood({"weather": ["fog", {"name": "contrast", "severity": 3}], "A": None, "turned": ["rot90"]}).setups
    assert [shift.label for shift in made["weather"]] == [*(f"fog {k}" for k in range(1, 6)), "contrast 3"]
    assert [shift.label for shift in made["turned"]] == ["rot90"]
    assert len(made["A"]) == 5


@pytest.mark.parametrize(
    ("setups", "message"),
    [
        ("A", r"setups must list A, C or both"),
        ([], r"setups must list A, C or both"),
        (["B"], r"unknown setup .*: 'B'\.?"),
        (["U"], r"the setup U, without shifts, is always there"),
        ({"mine": []}, r"setup mine: expected a list of shifts"),
        ({"mine": "fog"}, r"setup mine: expected a list of shifts, .* got 'fog'"),
        ({"mine": ["fogg"]}, r"unknown shift 'fogg'\. Did you mean 'fog'"),
        ({"mine": [{"severity": 2}]}, r"setup mine: expected a shift's name"),
        ({"mine": ["fog", {"name": "fog", "severity": 2}]}, r"setup mine: fog 2 stands there twice"),
        ({"mine": [{"name": "fog", "severity": 6}]}, r"severity of fog must be a whole number from 1 to 5"),
    ],
)
def test_setups_that_cannot_be_had(setups: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rood(setups)


def test_the_same_images_in_every_setup(study: Any) -> None:
    entries = plan(study(["msp"], images=30, setups={"x": [{"name": "gaussian_noise", "severity": 2}, "flip"]}))
    clean, _, noisy, flipped = (entry.cell.images.load() for entry in entries)
    assert len(clean) == len(noisy) == len(flipped) == 30
    assert torch.equal(flipped.batch(range(30)), clean.batch(range(30)).flip(3))
    whole = farout.load("toy", limit=200)
    places = [
        int((whole.batch(range(200)) == image).flatten(1).all(1).nonzero()[0]) for image in clean.batch(range(30))
    ]
    assert len(set(places)) == 30
    expected = farout.shift("gaussian_noise", severity=2)(clean.batch(range(30)), seed=0, indices=places)
    assert torch.equal(noisy.batch(range(30)), expected)  # drawn by the place in the whole set


def test_classes_are_balanced(study: Any) -> None:
    clean = plan(study(["msp"], images=30))[0].cell.images.load()
    assert sorted(np.bincount(clean.labels)) == [7, 7, 8, 8]


def test_one_class_detectors_are_fitted_on_their_class_alone(study: Any) -> None:
    entries = plan(study(["dn2"], one_class=True, outliers=[], setups={"x": ["flip"]}))
    clean = [entry for entry in entries if not entry.tags["setup"]]
    whole = farout.load("toy", "train", limit=200)
    assert [(entry.tags["class"], entry.tags["label"]) for entry in clean] == [
        (name, str(label)) for label, name in enumerate(whole.classes)
    ]
    for label, entry in enumerate(clean):
        fit = entry.cell.subject.fit
        expected = whole.subset(np.flatnonzero(whole.labels == label))
        assert torch.equal(fit.train.load().batch(range(9)), expected.batch(range(9)))
        assert set(fit.val.load().labels) == {label}
        assert len(entry.cell.images.load()) == 200  # all classes are scored: the others are its outliers


def test_all_classes_and_detectors_share_one_pass_over_every_shift(study: Any) -> None:
    entries = plan(study(["msp", "dn2", "knn"], one_class=["dn2"], setups={"x": ["flip", "rot90"]}))
    scored = [entry.cell for entry in entries if isinstance(entry.cell, ScoreCell)]
    works = grouped(scored)
    assert len(works) == 4  # inliers, outliers, two shifts
    assert sorted(len(work.cells) for work in works) == [2, 6, 6, 6]


def test_detectors_that_read_images_score_their_class_alone(study: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(farout.Detector):
        def fit(self, images: Any) -> None:
            self.center = torch.stack([batch.mean(0) for batch in images]).mean(0)

        def score(self, images: torch.Tensor) -> torch.Tensor:
            return (images - self.center).abs().flatten(1).mean(1)

    monkeypatch.setitem(catalog._makers, "Mine", Mine)
    entries = plan(study(["Mine"], one_class=True, setups={"x": ["flip"]}))
    for entry in shifted(entries):
        assert set(entry.cell.images.load().labels) == {int(entry.tags["label"])}
        assert set(entry.cell.subject.train.load().labels) == {int(entry.tags["label"])}


def test_too_few_images_of_a_class_are_found_before_the_work(study: Any) -> None:
    with pytest.raises(ValueError, match=r"knn: k=100 needs at least that many training images, got \d\d"):
        plan(study([{"name": "knn", "k": 100}], one_class=True))
    plan(study([{"name": "knn", "k": 100}]))


def test_a_budget_cuts_what_is_asked_for_and_says_so(study: Any) -> None:
    assert cuts(study(images=5_000)) == ["4,500 of 5,000 inlier images of rood"]
    assert cuts(study(images=400)) == cuts(study(images=5_000, budget="full")) == []
    assert INLIERS["full"] is None


@pytest.mark.parametrize(
    ("rood", "message"),
    [
        ({"images": 0}, "images must be a positive integer, got 0"),
        ({"one_class": "dn2"}, "one_class must list the labels"),
        ({"one_class": ["dn3"]}, r"unknown detector of the study: 'dn3'\. Did you mean 'dn2'"),
    ],
)
def test_wrong_settings(study: Any, rood: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(study(**rood))


@pytest.mark.parametrize("detectors", [[], "dn2", 3])
def test_wrong_detectors(detectors: Any) -> None:
    with pytest.raises(ValueError, match="detectors must list the labels of one or more detectors, got"):
        Rood(detectors=detectors)


def test_one_class_needs_classes(weights: str, tmp_path: Any) -> None:
    for level, name in enumerate(("one", "other")):
        images = np.full((4, 32, 32, 3), level, np.uint8)
        np.savez(tmp_path / f"{name}.npz", images=images, labels=np.zeros(4, np.int64))
    spec = {
        "name": "small",
        "inliers": {"train": str(tmp_path / "one.npz"), "test": str(tmp_path / "other.npz")},
        "networks": [{"name": "lenet", "weights": weights, "classes": 4}],
        "detectors": ["msp"],
        "protocols": [{"name": "rood", "one_class": True}],
    }
    with pytest.raises(ValueError, match="one_class needs test images of at least two classes"):
        plan(from_spec(StudySpec.model_validate(spec)))


def test_images_that_come_corrupted_are_left_out(weights: str) -> None:
    spec = {
        "name": "small",
        "inliers": {"test": {"name": "shapes", "limit": 200}},
        "outliers": [{"name": "shapes", "split": "test/ood_hue", "limit": 100}],
        "networks": [{"name": "lenet", "weights": weights, "classes": 4}],
        "detectors": ["msp"],
        "protocols": [{"name": "rood", "setups": {"x": ["flip"]}}],
    }
    inliers, outliers, flipped = (e.cell.images.load() for e in plan(from_spec(StudySpec.model_validate(spec))))
    for images, whole in (
        (inliers, farout.load("shapes", limit=200)),
        (outliers, farout.load("shapes", "test/ood_hue")),
    ):
        assert 0 < len(images) < len(whole)
        assert not images.attributes["severity"].any()
        assert whole.attributes["severity"].any()
    assert torch.equal(flipped.batch([0, 5]), inliers.batch([0, 5]).flip(3))
