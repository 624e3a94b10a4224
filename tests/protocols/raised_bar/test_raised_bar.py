"""Plan of the protocol raised_bar, and a small run of it from end to end."""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import farout
from farout.api.run import run
from farout.core import Detector
from farout.protocols import cuts, plan
from farout.protocols.document import document
from farout.protocols.raised_bar.plan import RaisedBar
from farout.protocols.raised_bar.settings import CORRUPTIONS
from farout.study.cells.exposed import ExposedCell
from farout.study.cells.train import TrainCell
from farout.study.results import Results
from farout.study.sources.images import LiveImages
from farout.study.spec import StudySpec
from farout.study.study import Inliers, Study, Trial, from_spec
from farout.study.subjects.images import ImageSubject
from helpers.written_runs import lenet_weights

RECIPE = {"epochs": 1, "batch": 32, "lr": 0.05, "augment": "none"}
ENSEMBLE = {"ensemble": ["lenet", {"name": "lenet", "seed": 5}], "train": RECIPE}
NEAR = {
    "generator": {"name": "dcgan", "width": 4, "dim": 8, "train": {"epochs": 1, "batch": 32}},
    "ensemble": ENSEMBLE,
    "lambda_s": [1.0, 2.0],
    "interval": [0.0, 0.7],
    "count": 48,
}
SHIFTED = {
    "generator": {"name": "pix2pix", "width": 4, "train": {"epochs": 1, "batch": 32}},
    "ensemble": ENSEMBLE,
    "count": 48,
}
SMALL = {
    split: {"name": "toy", "split": split, "limit": count}
    for split, count in (("train", 64), ("val", 32), ("test", 64))
}


def spec(budget: str = "full", outliers: Any = None, seeds: Any = (0,), **bar: Any) -> dict[str, Any]:
    settings = {"near": NEAR, "shifted": SHIFTED, "corruptions": ["contrast", "brightness"], **bar}
    return {
        "name": "small",
        "inliers": SMALL,
        "outliers": [{"name": "noise", "limit": 48}] if outliers is None else outliers,
        "networks": [{"name": "lenet", "train": RECIPE}],
        "detectors": ["entropy", "mds"],
        "protocols": [{"name": "raised_bar", **settings}],
        "seeds": list(seeds),
        "budget": budget,
    }


def study(*args: Any, **settings: Any) -> Study:
    return from_spec(StudySpec.model_validate(spec(*args, **settings)))


def roles(entries: Any) -> Counter[str]:
    return Counter(entry.tags.get("role", "") for entry in entries)


def test_the_corruptions_are_the_15_of_cifar_10_c_at_severity_5() -> None:
    made = RaisedBar().corruptions
    assert [shift.name for shift in made] == list(CORRUPTIONS)
    assert len(made) == 15
    assert {shift.params["severity"] for shift in made} == {5}
    assert not {"speckle_noise", "gaussian_blur", "spatter", "saturate"} & {shift.name for shift in made}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"near": "dcgan"}, r"near: expected the options of near_ood, .* got 'dcgan'"),
        ({"near": {"lambda": 1}}, r"near: the settings are not valid:\n.*unknown key in near: 'lambda'"),
        ({"shifted": {"lambda_p": -2}}, r"shifted: the settings are not valid:\n.*lambda_p"),
        ({"corruptions": ["fogg"]}, r"unknown shift 'fogg'"),
        ({"corruptions": "fog"}, r"corruptions: expected a list such as \[fog, contrast\], or false, got 'fog'"),
        ({"corruptions": ["fog", {"name": "fog", "severity": 3}]}, r"corruptions: fog is listed twice"),
        ({"exposure": {"weights": 1}}, r"exposure: the settings are not valid:\n.*Did you mean 'weight'"),
        ({"sanity": ["lenett"], "near": False}, r"sanity: the settings are not valid"),
        ({"detectors": "msp"}, r"detectors must list the labels of one or more detectors"),
    ],
)
def test_settings_that_cannot_be_had(settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RaisedBar(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"near": False, "shifted": False}, r"it has nothing to test: near and shifted are both false"),
        ({"shifts": ["noise"]}, r"shifts: noise has no labels, expected the 4 classes of the inliers"),
        (
            {"shifts": [{"name": "shapes", "limit": 9}]},
            r"shifts: shapes has 8 classes such as 'circle', expected the 4",
        ),
        ({"near": {**NEAR, "label": "noise"}}, r"two outlier sets are called 'noise'"),
        ({"exposure": {"networks": ["resnet"]}}, r"exposure: network that the study trains: 'resnet'"),
        (
            {"exposure": {"outliers": {"mine": {"name": "noise", "limit": 40}}}},
            r"exposure: 40 of the outliers mine are in the outlier set 'noise', on which the network would be tested",
        ),
    ],
)
def test_settings_that_do_not_suit_the_study(settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(study(**settings))


def test_inliers_without_training_images_do_not_suit() -> None:
    trial = Trial(0, Inliers(None, None, LiveImages(farout.load("toy", limit=8))), {})
    reason = RaisedBar().unsuited(Study("bare", [trial], [], "quick"))
    assert reason is not None
    assert "needs a training split with labels" in reason


def test_what_is_planned() -> None:
    entries = plan(study(exposure=True))
    assert roles(entries) == {
        "": 2 * 3,  # two detectors on inliers, near_ood and noise
        "classified": 1,
        "set": 2,
        "member": 2 * 2,
        "information": 1,
        "sanity": 4,  # each set, and twice the test images
        "reference": 1,
        "features": 6 + 7,  # near: itself, test, plain, noise (the outliers), uniform noise, training; shifted likewise
        "perceptual": 3,
        "confidence": 4,  # test, two corruptions, shifted
        "prediction": 4,
        "exposed": 2 * 3 + 2 * 2,  # without exposure both outlier sets, with it the other one
        "exposed_prediction": 2,
    }
    exposed = [entry for entry in entries if entry.tags.get("role") == "exposed"]
    assert ("near_ood", "near_ood") not in {(entry.tags["exposure"], entry.tags["outliers"]) for entry in exposed}


def test_shifted_and_corrupted_images_are_copies_of_the_same_test_images() -> None:
    entries = [entry for entry in plan(study()) if entry.tags.get("role") == "prediction"]
    indices = [entry.cell.images.preview().index.tolist() for entry in entries]
    labels = [entry.cell.images.preview().labels.tolist() for entry in entries]
    assert all(one == indices[0] for one in indices)
    assert all(one == labels[0] for one in labels)
    assert len(indices[0]) == 48


def test_paths_are_relative_to_the_study_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    lenet_weights(tmp_path)
    member = {"name": "lenet", "weights": "lenet.safetensors", "classes": 4}
    near = {**NEAR, "ensemble": [member, {"name": "lenet", "train": RECIPE}]}
    (tmp_path / "study.yaml").write_text(
        yaml.safe_dump(spec(near=near, sanity=[member, {"name": "lenet", "train": RECIPE}]))
    )
    study = from_spec(StudySpec.read(tmp_path / "study.yaml"))
    made = RaisedBar(**study.protocols[0].params)
    assert made.near is not None
    for ensemble in (made.near.ensemble, made.sanity):
        assert ensemble.ensemble[0].weights == str(tmp_path / "lenet.safetensors")
    assert plan(study)


def test_settings_are_the_same_after_a_study_has_resolved_their_paths(tmp_path: Path) -> None:
    asked = {"near": NEAR, "shifted": SHIFTED, "exposure": {"outliers": {"a": "toy:test"}}, "shifts": ["toy:val"]}
    once = RaisedBar.resolve_study({**asked, "sanity": ENSEMBLE, "corruptions": ["fog"]}, tmp_path)
    assert RaisedBar.resolve_study(once, tmp_path) == once
    plain, resolved = RaisedBar(**asked, sanity=ENSEMBLE), RaisedBar(**once)
    for name in ("near", "shifted", "exposure", "shifts", "sanity"):
        assert getattr(plain, name) == getattr(resolved, name)


def test_further_labeled_sets_are_compared_in_calibration() -> None:
    further = {"name": "toy", "split": "val", "limit": 20, "label": "v2"}
    entries = [entry for entry in plan(study(shifts=[further])) if entry.tags.get("role") == "confidence"]
    assert [(entry.tags["of"], entry.tags["kind"]) for entry in entries] == [
        ("test", "test"), ("v2", "conventional"), ("contrast", "corruption"), ("brightness", "corruption"),
        ("shifted", "shifted"),
    ]  # fmt: skip
    assert entries[1].cell.images.about.total == 20


def test_tested_networks_are_not_members_of_the_generators_ensemble() -> None:
    entries = plan(
        study(near={**NEAR, "ensemble": {"ensemble": ["lenet", {"name": "lenet", "seed": 5}], "train": RECIPE}})
    )
    tested = {
        cell.id for entry in entries if entry.tags.get("role") == "prediction" for cell in entry.cell.network.requires
    }
    seen = next(entry.cell for entry in entries if entry.tags.get("role") == "reference")
    assert not tested & {cell.id for cell in seen.network.requires}


def test_sets_that_the_study_lists_are_used() -> None:
    listed = [
        {"name": "noise", "limit": 48},
        {"name": "near_ood", **NEAR, "label": "mine"},
        {"name": "shifted", **SHIFTED},
    ]
    entries = plan(study(outliers=listed, near=None, shifted=None))
    made = {(entry.tags["set"], entry.tags["kind"]) for entry in entries if entry.tags.get("role") == "set"}
    assert made == {("mine", "near"), ("shifted", "shifted")}
    scored = {entry.tags["outliers"] for entry in entries if "role" not in entry.tags}
    assert scored == {"", "mine", "noise"}  # shifted images are inliers


def test_plain_samples_are_no_conventional_set() -> None:
    samples = {"name": "generated", "generator": NEAR["generator"], "count": 48, "label": "gan"}
    entries = plan(study(outliers=[{"name": "noise", "limit": 48}, samples], shifted=False, exposure=True))
    made = {(entry.tags["set"], entry.tags["kind"]) for entry in entries if entry.tags.get("role") == "set"}
    assert made == {("near_ood", "near"), ("gan", "plain generator")}
    assert {entry.tags["outliers"] for entry in entries if "role" not in entry.tags} == {"", "near_ood", "noise", "gan"}
    compared = {entry.tags["of"]: entry.tags["kind"] for entry in entries if entry.tags.get("role") == "features"}
    assert (compared["gan"], compared["noise"]) == ("plain generator", "conventional")
    exposed = {entry.tags["outliers"] for entry in entries if entry.tags.get("role") == "exposed"}
    assert exposed == {"", "near_ood", "noise", "gan"}


def test_the_sanity_ensemble_is_trained_with_other_seeds() -> None:
    entries = plan(study())
    checking = next(entry.cell for entry in entries if entry.tags.get("role") == "sanity")
    seen = next(entry.cell for entry in entries if entry.tags.get("role") == "reference")
    ours, theirs = ({cell.id for cell in one.network.requires} for one in (checking, seen))
    assert len(ours) == len(theirs) == 2
    assert not ours & theirs
    names = [[cell.spec.name for cell in one.network.requires] for one in (checking, seen)]
    assert names[0] == names[1] == ["lenet", "lenet"]
    named = plan(study(sanity={"ensemble": ["lenet", {"name": "lenet", "seed": 9}], "train": RECIPE}))
    checking = next(entry.cell for entry in named if entry.tags.get("role") == "sanity")
    assert [cell.seed for cell in checking.network.requires][1] == 9
    assert "sanity" not in roles(plan(study(sanity=False)))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "lenet"),  # of the losses of near_ood
        ({"near": False, "sanity": {"ensemble": ["lenet", {"name": "vgg11", "width": 4}], "train": RECIPE}}, "vgg11"),
        ({"near": False}, "lenet"),  # that of the study
    ],
)
def test_distances_of_a_shifted_set_whose_generator_is_a_file(
    tmp_path: Path, settings: dict[str, Any], expected: str
) -> None:
    generator = farout.generators.create("pix2pix", side=32, width=4)
    generator.module = generator.build()
    generator.save(tmp_path / "pix2pix.safetensors")
    made = {"generator": str(tmp_path / "pix2pix.safetensors"), "count": 48}
    entries = [one for one in plan(study(**{"shifted": made, **settings})) if one.tags.get("set") == "shifted"]
    features = {one.tags["of"]: one.cell for one in entries if one.tags["role"] == "features"}
    corrupted = {"contrast", "brightness"}
    assert set(features) == {"shifted", "test", "uniform noise", "training"} | corrupted, "no plain generator"
    perceptual = {one.tags["of"]: one.cell for one in entries if one.tags["role"] == "perceptual"}
    assert set(perceptual) == {"shifted"} | corrupted
    assert {cell.network.label for cell in (*features.values(), *perceptual.values())} == {expected}


def test_budgets_leave_out_generators_and_say_so() -> None:
    many = {**NEAR, "lambda_s": [0.5, 1.0, 1.5, 2.0], "generator": {"name": "dcgan", "train": {"epochs": 20}}}
    small = study("quick", near=many)
    said = cuts(small)
    assert "2 of 4 generators of near_ood: λs = 1, 1.5" in said
    assert "10 of 20 epochs of the generators of near_ood" in said
    assert not cuts(study(near=many))


def test_near_ood_needs_no_outlier_sets() -> None:
    entries = plan(study(outliers=[], near={**NEAR}, shifted=False))
    assert {entry.tags["outliers"] for entry in entries if "role" not in entry.tags} >= {"", "near_ood"}


class Bright(Detector):
    """Score = mean brightness."""

    def score(self, images: Any) -> Any:
        return images.mean((1, 2, 3))


def test_detectors_without_a_network_are_tested_on_near_ood_alone() -> None:
    made = study()
    made.trials[0].subjects[:] = [ImageSubject("bright", Bright())]
    found = roles(plan(made))
    assert found[""] == 3
    assert not {"confidence", "prediction", "classified"} & found.keys()


def test_stress_leaves_out_what_trains_generators(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[Study] = []
    monkeypatch.setattr(
        importlib.import_module("farout.api.stress"), "run", lambda study, *_, **__: planned.append(study)
    )
    farout.stress(Bright(), "toy")
    assert RaisedBar().unsuited(planned[0]) is None  # it would be possible
    names = [protocol.name for protocol in planned[0].protocols]
    assert "clean" in names
    assert "raised_bar" not in names


def test_exposed_networks_differ_in_their_outliers_only() -> None:
    entries = plan(study(exposure={"outliers": {"noise": {"name": "noise", "options": {"n": 30, "side": 16}}}}))
    cells = {
        entry.tags["exposure"]: entry.cell.network.requires[0]
        for entry in entries
        if entry.tags.get("role") == "exposed_prediction"
    }
    assert list(cells) == ["none", "noise", "near_ood"]
    assert isinstance(cells["none"], TrainCell)
    assert not isinstance(cells["none"], ExposedCell)
    for name in ("noise", "near_ood"):
        assert cells[name].untrained().digest == cells["none"].untrained().digest
        assert cells[name].recipe == cells["none"].recipe
        assert cells[name].outliers.about.shape == (3, 32, 32)
    assert len({cell.id for cell in cells.values()}) == 3


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run of everything."""
    folder = tmp_path_factory.mktemp("raised_bar")
    result = run(study(exposure=True), folder)
    assert not result.results.failures()
    return folder


def test_a_small_run_has_every_table_and_figure(finished: Path) -> None:
    found = document(Results(finished)).summaries["raised_bar"]
    tables = {table.name.removeprefix("raised_bar_"): table.frame for table in found.tables}
    assert list(tables) == [
        "auroc", "aupr_out", "aupr_in", "networks", "sets", "members", "sanity", "ece", "fid", "perceptual",
        "exposure", "details",
    ]  # fmt: skip
    kinds = {figure.name.removeprefix("raised_bar_") for figure in found.figures}
    assert kinds >= {
        "near_near_ood", "shifted_shifted", "bars_auroc", "bars_aupr_out", "confusion", "fid_0", "fid_1", "ece_bars",
        "information", "reliability", "perceptual_bars", "radar",
    }  # fmt: skip
    assert tables["sets"]["images"].tolist() == [48, 48]
    assert tables["members"]["set"].tolist() == ["near_ood"] * 2 + ["shifted"] * 2
    assert set(tables["members"]["n_test"]) == {64}
    assert tables["sanity"]["images"].tolist() == [64, 48, 48]
    assert set(tables["perceptual"]["of"].str.removesuffix(", undertrained")) == {"shifted", "contrast", "brightness"}
    assert all(caption.endswith(".") for caption in (one.caption for one in (*found.tables, *found.figures)))


def test_fids_are_of_equally_many_images_on_a_named_network(finished: Path) -> None:
    found = document(Results(finished)).summaries["raised_bar"]
    frame = next(table.frame for table in found.tables if table.name == "raised_bar_fid")
    assert set(frame["n"]) == {48}
    assert set(frame["features"]) == {"lenet"}
    assert np.isfinite(frame["fid"]).all()


def test_pictures_show_originals_above_their_copies(finished: Path) -> None:
    found = document(Results(finished)).summaries["raised_bar"]
    sheet: Any = next(figure for figure in found.figures if figure.name == "raised_bar_shifted_shifted")
    assert [strip.title for strip in sheet.strips] == ["test image", "its Shifted copy"] * 2
    test = farout.load("toy", "test", limit=64)
    assert test.labels is not None
    first = test.batch([int(np.flatnonzero(test.labels == 0)[0])])
    shown = sheet.strips[0].images[0]
    assert np.array_equal(shown, (first[0].permute(1, 2, 0) * 255).round().byte().numpy())
