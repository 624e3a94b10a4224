"""Detectors that are fitted before they look, detectors that learn from outliers, and ensembles, in a study."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farout
from farout.study.budget import SHARED
from farout.study.engines import scheduler
from farout.study.results import Results
from farout.study.spec import StudySpec
from farout.study.study import from_spec
from helpers.written_runs import lenet_weights

LAYERS = ["msp", "mds_layers", {"name": "mds_layers", "epsilon": 0.0}]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(lenet_weights(tmp_path_factory.mktemp("weights")))


def spec(weights: Any, members: list[Any], **options: Any) -> StudySpec:
    given: dict[str, Any] = {
        "name": "looking",
        "inliers": {split: {"name": "toy", "split": split, "limit": 150} for split in ("train", "val", "test")},
        "outliers": [{"name": "noise", "limit": 70}],
        "networks": [{"name": "lenet", "weights": weights, "mean": [0.5], "std": [0.25]}],
        "detectors": members,
    }
    return StudySpec.model_validate(given | options)


def learning(weights: str) -> StudySpec:
    return spec(weights, LAYERS, validation_outliers={"name": "toy", "split": "test/ood_pair", "limit": 40})


def scores(root: Path) -> dict[tuple[str, str], Any]:
    results = Results(root)
    return {(row.tags["detector"], row.tags["outliers"]): results.scores(row) for row in results.done("clean")}


def fitted(weights: str, outliers: Any = None) -> farout.Panel:
    network = farout.networks.create("lenet", 4, 32, mean=0.5, std=0.25)
    farout.networks.load_weights(network, weights)
    members = ["mds_layers", farout.detectors.MDSLayers(epsilon=0.0)]
    train, val = (farout.load("toy", split, limit=150) for split in ("train", "val"))
    return farout.Panel(network, members).fit(train, val, outliers)


@pytest.mark.parametrize("supervised", [False, True])
def test_scores_and_validation_scores_are_a_panels(weights: str, tmp_path: Path, supervised: bool) -> None:
    outliers = farout.load("toy", "test/ood_pair", limit=40) if supervised else None
    study = learning(weights) if supervised else spec(weights, LAYERS)
    assert not farout.run(study, tmp_path).outcome.failed
    found, panel = scores(tmp_path), fitted(weights, outliers)
    for set_, images in {"": farout.load("toy", limit=150), "noise": farout.load("noise", limit=70)}.items():
        for detector, expected in panel.score(images).items():
            np.testing.assert_array_equal(found[detector, set_], expected, err_msg=detector)
    kept = [values for path in tmp_path.glob("cells/*/state.safetensors") for values in _validation(path)]
    for expected in panel.validation.values():
        assert any(np.array_equal(values, expected) for values in kept)


def _validation(path: Path) -> list[Any]:
    from safetensors.numpy import load_file

    return [values for key, values in load_file(path).items() if key.endswith("//validation")]


def test_outliers_to_learn_from_change_what_is_learned(weights: str, tmp_path: Path) -> None:
    farout.run(spec(weights, LAYERS), tmp_path / "alone")
    farout.run(learning(weights), tmp_path / "learned")
    alone, learned = scores(tmp_path / "alone"), scores(tmp_path / "learned")
    assert np.array_equal(alone["msp", "noise"], learned["msp", "noise"])
    assert not np.allclose(alone["mds_layers", "noise"], learned["mds_layers", "noise"])


def test_a_budget_bounds_what_is_learned_from(weights: str, monkeypatch: pytest.MonkeyPatch) -> None:
    few = SHARED["quick"]._replace(val_images=30)
    monkeypatch.setitem(SHARED, "quick", few)
    (trial,) = from_spec(learning(weights).model_copy(update={"budget": "quick"})).trials
    assert trial.inliers.outliers is not None
    assert trial.inliers.outliers.about.total == 30


def test_what_was_learned_from_is_noted(weights: str, tmp_path: Path) -> None:
    notes = farout.run(learning(weights), tmp_path / "learned").notes
    assert notes == [
        f"{name}: learned from 40 images of toy/ood_pair" for name in ("mds_layers", "mds_layers(epsilon=0.0)")
    ]
    assert farout.run(spec(weights, LAYERS), tmp_path / "alone").notes == []


@pytest.mark.parametrize("method", ["perturbed_pass", "supervise"])
def test_one_that_fails_leaves_the_others_be_and_is_tried_again(
    weights: str, tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> Any:
        raise ArithmeticError("no gradient")

    with monkeypatch.context() as patch:
        patch.setattr(farout.detectors.MDSLayers, method, failing)
        outcome = farout.run(learning(weights), tmp_path).outcome
    assert any(why.startswith("mds_layers on lenet: ArithmeticError: no gradient") for why in outcome.failed.values())
    unhurt = {"msp", "mds_layers(epsilon=0.0)"} if method == "perturbed_pass" else {"msp"}
    assert {detector for detector, _ in scores(tmp_path)} == unhurt
    again = farout.run(learning(weights), tmp_path).outcome
    assert not again.failed
    assert len(scores(tmp_path)) == 6
    assert again.reused >= 3, "what was fitted before is not fitted again"


def test_other_outliers_to_learn_from_are_learned_from_anew(weights: str, tmp_path: Path) -> None:
    """In the store of the first run, where the first stage of the fit is found again."""
    farout.run(learning(weights), tmp_path)
    first = scores(tmp_path)
    given = {"name": "toy", "split": "test/ood_pair", "limit": 41}
    again = farout.run(spec(weights, LAYERS, validation_outliers=given), tmp_path)
    assert len(again.outcome.done) == 2 * (1 + 2), "two detectors, each taught and then tested on two sets"
    assert np.array_equal(first["msp", "noise"], scores(tmp_path)["msp", "noise"])
    assert not np.allclose(first["mds_layers", "noise"], scores(tmp_path)["mds_layers", "noise"])


def test_an_interrupted_run_looks_at_nothing_twice(
    weights: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    take, look = scheduler._Active.take, farout.detectors.MDSLayers.perturbed_pass

    def counted(self: Any, network: Any, images: Any) -> Any:
        seen.append(len(images))
        return look(self, network, images)

    def interrupted(self: Any, name: str, results: Any) -> None:
        take(self, name, results)
        if self.work.cells[0].title.startswith("fit mds_layers"):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(farout.detectors.MDSLayers, "perturbed_pass", counted)
    with monkeypatch.context() as patch:
        patch.setattr(scheduler._Active, "take", interrupted)
        with pytest.raises(KeyboardInterrupt):
            farout.run(learning(weights), tmp_path)
    assert seen == [64]
    farout.run(learning(weights), tmp_path)
    assert sum(seen) == 150 + 40 + 150 + 70  # validation split, what is learned from, both sets tested


def test_an_interrupted_run_gives_the_same_scores(
    weights: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "FLUSH_SECONDS", 0.0)
    farout.run(learning(weights), tmp_path / "whole")
    count, original = 0, scheduler._Active.take

    def take(self: Any, number: str, results: Any) -> None:
        nonlocal count
        original(self, number, results)
        count += 1
        if count in (3, 8, 10):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(scheduler._Active, "take", take)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            farout.run(learning(weights), tmp_path / "parts")
    farout.run(learning(weights), tmp_path / "parts", workers=2)
    whole, parts = scores(tmp_path / "whole"), scores(tmp_path / "parts")
    assert whole.keys() == parts.keys()
    assert all(np.array_equal(whole[key], parts[key]) for key in whole)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"validation_outliers": {"name": "noise", "limit": 70}}, "70 of them are in the outlier set 'noise'"),
        ({"validation_outliers": {"name": "noise", "limit": 40}}, "40 of them are in the outlier set 'noise'"),
        ({"validation_outliers": "FILE", "outliers": [{"name": "FILE", "limit": 5}]}, "5 of them are in the outlier"),
        (
            {"validation_outliers": "toy:test/ood_cls", "inliers": {"test": "toy"}},
            "tell them from the inliers' val split",
        ),
        ({"validation_outliers": "toy:test/ood_cls", "detectors": ["msp"]}, "no detector of the study looking learns"),
    ],
)
def test_what_may_not_be_learned_from(weights: str, options: dict[str, Any], words: str, tmp_path: Path) -> None:
    """Parts of one set are told apart, also where its images must be resized first."""
    file = str(tmp_path / "gray.npz")
    np.savez(file, images=np.random.default_rng(0).integers(0, 256, (20, 20, 20), dtype=np.uint8))
    options = json.loads(json.dumps(options).replace("FILE", file))
    with pytest.raises(ValueError, match=words):
        from_spec(spec(weights, LAYERS, **options))


def test_an_ensemble_of_stored_networks(tmp_path: Path) -> None:
    files = []
    for seed in (1, 2):
        network = farout.networks.create("lenet", 4, 32, mean=0.5, std=0.25, seed=seed)
        files.append(str(tmp_path / f"{seed}.safetensors"))
        farout.networks.save_weights(network, Path(files[-1]))
    study = spec(files, ["msp", "ensemble", "knn", {"name": "ensemble", "kind": "mutual_information"}, "react"])
    with pytest.raises(ValueError, match="react reads the network's last linear layer"):
        from_spec(study)
    study = study.model_copy(update={"detectors": study.detectors[:-1]})
    assert not farout.run(study, tmp_path / "run", workers=2).outcome.failed
    members = [farout.networks.create("lenet", 4, 32, mean=0.5, std=0.25, seed=seed) for seed in (1, 2)]
    panel = farout.Panel(farout.networks.Ensemble(members), ["ensemble"])
    expected = panel.score(farout.load("noise", limit=70))["ensemble"]
    np.testing.assert_array_equal(scores(tmp_path / "run")["ensemble", "noise"], expected)


def test_an_ensemble_to_be_trained(tmp_path: Path) -> None:
    network = {"name": "lenet", "members": 2, "train": {"epochs": 1}, "label": "two"}
    study = spec("", ["ensemble", "entropy"], networks=[network, {**network, "members": None, "label": "one"}])
    result = farout.run(study, tmp_path)
    assert not result.outcome.failed
    trained = list(tmp_path.glob("cells/*/weights.safetensors"))
    assert len(trained) == 2  # the ensemble's first member is the network that stands alone
    rows = Results(tmp_path).done("clean")
    by_network = {
        row.tags["network"]: Results(tmp_path).scores(row) for row in rows if row.tags["detector"] == "ensemble"
    }
    assert not np.allclose(by_network["two"][:50], by_network["one"][:50])


def test_the_members_of_an_ensemble_differ() -> None:
    with pytest.raises(ValueError, match="names a file twice"):
        spec(["a.safetensors", "b.safetensors", "a.safetensors"], ["msp"])


def test_members_are_for_networks_to_be_trained() -> None:
    with pytest.raises(ValueError, match="list their files"):
        spec("a.safetensors", ["msp"], networks=[{"name": "lenet", "weights": "a.safetensors", "members": 5}])
