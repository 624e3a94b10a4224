"""What the protocol rood plans: which images under which shifts, by which detectors, in how many passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import farout
from farout import shifts
from farout.detectors.catalog import catalog
from farout.protocols import cuts, plan
from farout.protocols.rood.classes import class_names
from farout.protocols.rood.entries import INLIERS
from farout.protocols.rood.plan import Rood
from farout.shifts.corruption import Corruption
from farout.shifts.selection import PUBLISHED
from farout.study.cells.score import ScoreCell
from farout.study.engines.run import group_works
from farout.study.spec import StudySpec
from farout.study.study import Study, from_spec
from helpers.written_runs import lenet_weights

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


def test_the_papers_setups_are_all_shifts_but_the_training_augmentation() -> None:
    assert {name for names in PUBLISHED.values() for name in names} == set(shifts.names()) - {"autoaugment_cifar"}
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
        (["U"], r"the name U is reserved for the setup without shifts"),
        ([{"mine": ["fog"]}], r"unknown setup \(give one of your own"),
        ({"": ["fog"]}, r"a setup needs a name, got an empty one"),
        ({"mine": []}, r"setup mine: expected a list of shifts"),
        ({"mine": "fog"}, r"setup mine: expected a list of shifts, .* got 'fog'"),
        ({"mine": ["fogg"]}, r"unknown shift 'fogg'\. Did you mean 'fog'"),
        ({"mine": [{"severity": 2}]}, r"setup mine: expected a name, or a mapping"),
        ({"mine": ["fog", {"name": "fog", "severity": 2}]}, r"setup mine: fog 2 is listed twice"),
        ({"mine": [{"name": "fog", "severity": 6}]}, r"severity of fog must be a whole number from 1 to 5"),
    ],
)
def test_setups_that_cannot_be_had(setups: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rood(setups)


def test_photographs_of_frost_need_frost(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"frost_dir=photos is for frost, which is not among fog, rot90"):
        Rood({"weather": ["fog"], "turned": ["rot90"]}, frost_dir="photos")
    Image.fromarray(np.full((300, 300, 3), 200, np.uint8)).save(tmp_path / "frost.png")
    made = Rood({"weather": ["fog", {"name": "frost", "severity": 2}]}, frost_dir=str(tmp_path)).setups
    assert made["weather"][-1].label == "frost 2"  # without photographs it would be called procedural


def test_the_same_images_in_every_setup(study: Any) -> None:
    entries = plan(study(["msp"], images=30, setups={"x": [{"name": "gaussian_noise", "severity": 2}, "flip"]}))
    clean, _, noisy, flipped = (entry.cell.images.preview() for entry in entries)
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
    clean = plan(study(["msp"], images=30))[0].cell.images.preview()
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
        assert torch.equal(fit.train.preview().batch(range(9)), expected.batch(range(9)))
        assert fit.val is None  # it learns nothing from validation images
        assert len(entry.cell.images.preview()) == 200  # all classes are scored: the others are its outliers


def test_all_classes_and_detectors_share_one_pass_over_every_shift(study: Any) -> None:
    entries = plan(study(["msp", "dn2", "knn"], one_class=["dn2"], setups={"x": ["flip", "rot90"]}))
    scored = [entry.cell for entry in entries if isinstance(entry.cell, ScoreCell)]
    works = group_works(scored)
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
        assert set(entry.cell.images.preview().labels) == {int(entry.tags["label"])}
        assert set(entry.cell.subject.splits["train"].preview().labels) == {int(entry.tags["label"])}


def test_detectors_that_read_images_are_fitted_once_for_each_class(study: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those fitted lately are kept, and they are few: all images of one come before those of the next."""

    class Mine(farout.Detector):
        def fit(self, images: Any) -> None:
            self.total = len(images)

        def score(self, images: torch.Tensor) -> torch.Tensor:
            return images.flatten(1).mean(1)

    monkeypatch.setitem(catalog._makers, "Mine", Mine)
    entries = plan(study(["Mine"], one_class=True, setups={"x": ["flip", "rot90"]}))
    assert [entry.tags["label"] for entry in entries] == [label for label in "0123" for _ in range(3)]


UNABLE = ["msp", "odin", "react", "rmds"]
"""Two that learn nothing, one that learns from the validation split, one that compares classes."""


@pytest.mark.parametrize("name", UNABLE)
def test_detectors_that_cannot_learn_from_one_class_are_refused_before_the_work(study: Any, name: str) -> None:
    said = rf"protocol rood: one_class fits .* and {name} cannot learn from them .*: list those that can, "
    with pytest.raises(ValueError, match=said + r"one_class: \[dn2, knn\]"):
        plan(study(["dn2", name, "knn"], one_class=True))
    with pytest.raises(ValueError, match=said + r"one_class: \[knn, dn2\]"):
        plan(study(["dn2", name, "knn"], one_class=[name, "knn"]))
    with pytest.raises(
        ValueError, match=r"take others: dice, dn2, gram, knn, mds, mds_layers, nnguide, she, vim, ae\b"
    ):
        plan(study([name], one_class=True))
    plan(study(["dn2", name, "knn"], one_class=["dn2", "knn"]))


def test_a_detector_of_images_that_learns_nothing_takes_no_single_class(
    study: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Mine(farout.Detector):
        def score(self, images: torch.Tensor) -> torch.Tensor:
            return images.flatten(1).mean(1)

    monkeypatch.setitem(catalog._makers, "Mine", Mine)
    with pytest.raises(ValueError, match=r"Mine cannot learn from them .*one_class: \[dn2\]"):
        plan(study(["Mine", "dn2"], one_class=True))


def test_classes_have_the_same_sources_for_all_detectors(study: Any) -> None:
    """Files would be read again for each."""
    entries = plan(study(["knn", "dn2"], one_class=True, setups={"x": ["flip"]}))
    assert len({id(entry.cell.subject.fit.train) for entry in entries}) == 4


def test_class_names_that_would_not_do() -> None:
    classes = ("mean", "cat", "cat", "", "dog_low", "GS")
    names = class_names([0, 1, 2, 3, 4, 5, 7], classes)
    assert list(names.values()) == ["mean", "cat (1)", "cat (2)", "3", "dog_low", "GS", "7"]
    assert class_names([0, 1], ("ant", "bee")) == {0: "ant", 1: "bee"}


def files(folder: Path, **counts: list[int]) -> dict[str, str]:
    """Splits as files, so many images of every class."""
    rng = np.random.default_rng(0)
    for split, of_class in counts.items():
        labels = np.repeat(np.arange(len(of_class)), of_class)
        images = rng.integers(0, 256, (len(labels), 32, 32, 3), dtype=np.uint8)
        np.savez(folder / f"{split}.npz", images=images, labels=labels)
    return {split: str(folder / f"{split}.npz") for split in counts}


@pytest.mark.parametrize(
    ("train", "val", "detector", "message"),
    [
        ([5, 0], [5, 5], "dn2", "none of the 5 training images is of the class 1"),
        ([1, 5], [5, 5], "dn2", "dn2: k=2 needs at least that many training images, got 1"),
    ],
)
def test_a_class_without_images_to_fit_on(
    weights: str, tmp_path: Path, train: list[int], val: list[int], detector: str, message: str
) -> None:
    spec = {
        "name": "small",
        "inliers": files(tmp_path, train=train, val=val, test=[5, 5]),
        "networks": [{"name": "lenet", "weights": weights, "classes": 4}],
        "detectors": [detector],
        "protocols": [{"name": "rood", "one_class": True}],
    }
    with pytest.raises(ValueError, match=message):
        plan(from_spec(StudySpec.model_validate(spec)))
    plan(from_spec(StudySpec.model_validate({**spec, "outliers": ["noise"], "protocols": ["rood"]})))


def test_too_few_images_of_a_class_are_found_before_the_work(study: Any) -> None:
    with pytest.raises(ValueError, match=r"knn: k=100 needs at least that many training images, got \d\d"):
        plan(study([{"name": "knn", "k": 100}], one_class=True))
    plan(study([{"name": "knn", "k": 100}]))


def test_a_budget_cuts_what_is_asked_for_and_says_so(study: Any) -> None:
    assert cuts(study(images=5_000)) == ["4,500 of 5,000 inlier images of rood"]
    assert cuts(study(images=400)) == cuts(study(images=5_000, budget="full")) == []
    assert INLIERS["full"] is None


def test_outliers_that_nothing_is_tested_against_are_named(study: Any) -> None:
    told = ["the outlier sets in rood: with one_class the other classes, or defects, are the outliers"]
    assert cuts(study(["dn2"], one_class=True)) == cuts(study(["dn2"], one_class=["dn2"])) == told
    assert cuts(study(["dn2"], one_class=True, outliers=[])) == []  # those that the inliers bring nobody has named
    assert cuts(study(["msp", "dn2"], one_class=["dn2"])) == []


def test_outliers_are_needed_where_a_detector_takes_all_classes(weights: str, tmp_path: Path) -> None:
    spec = {
        "name": "small",
        "inliers": files(tmp_path, train=[5, 5], test=[5, 5]),
        "networks": [{"name": "lenet", "weights": weights, "classes": 4}],
        "detectors": ["dn2", "msp"],
    }

    def planned(**rood: Any) -> Any:
        protocols = [{"name": "rood", "setups": {"x": ["flip"]}, **rood}]
        return plan(from_spec(StudySpec.model_validate({**spec, "protocols": protocols})))

    with pytest.raises(ValueError, match="protocol rood: it needs outliers for msp, which take"):
        planned(one_class=["dn2"])
    entries = planned(one_class=["dn2"], detectors=["dn2"])
    assert [entry.tags["class"] for entry in entries] == ["0", "1"] * 2
    assert {entry.tags["n_train"] for entry in entries} == {"4"}  # one of five is held out for validation


@pytest.mark.parametrize(
    ("rood", "message"),
    [
        ({"images": 0}, "images must be a positive integer, got 0"),
        ({"one_class": "dn2"}, "one_class must list the labels"),
        ({"one_class": None}, "one_class must list the labels"),
        ({"one_class": [3]}, "one_class must list the labels"),
        ({"one_class": ["dn2"], "images": 3}, "no image of the class .* among the 3 test images"),
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


def test_one_class_of_detectors_that_are_left_out() -> None:
    with pytest.raises(ValueError, match="one_class names dn2, and detectors does not"):
        Rood(one_class=["dn2", "msp"], detectors=["msp"])


def test_one_class_needs_classes(weights: str, tmp_path: Any) -> None:
    for level, name in enumerate(("one", "other")):
        images = np.full((4, 32, 32, 3), level, np.uint8)
        np.savez(tmp_path / f"{name}.npz", images=images, labels=np.zeros(4, np.int64))
    spec = {
        "name": "small",
        "inliers": {"train": str(tmp_path / "one.npz"), "test": str(tmp_path / "other.npz")},
        "networks": [{"name": "lenet", "weights": weights, "classes": 4}],
        "detectors": ["dn2"],
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
    inliers, outliers, flipped = (e.cell.images.preview() for e in plan(from_spec(StudySpec.model_validate(spec))))
    for images, whole in (
        (inliers, farout.load("shapes", limit=200)),
        (outliers, farout.load("shapes", "test/ood_hue")),
    ):
        assert 0 < len(images) < len(whole)
        assert not images.attributes["severity"].any()
        assert whole.attributes["severity"].any()
    assert torch.equal(flipped.batch([0, 5]), inliers.batch([0, 5]).flip(3))
