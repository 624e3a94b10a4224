"""Ensembles of different networks in a study: members are the networks as they are by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import farout
from farout.networks import create, save_weights
from farout.study.sources.networks import JoinedNetworks
from farout.study.spec import EnsembleSpec, NetworkSpec, StudySpec
from farout.study.store import Store
from farout.study.study import Study, from_spec

RECIPE = {"epochs": 1, "batch": 24, "lr": 0.01, "augment": "none"}
MEMBERS = ["lenet", {"name": "resnet20", "width": 2}]
MIXED = {"ensemble": MEMBERS, "train": RECIPE, "label": "mixed"}


@pytest.fixture
def ready(tmp_path: Path) -> Any:
    """`ready(*networks, **changes)`: a study of three classes with these networks."""
    labels, files = np.arange(48) % 3, {}
    for seed, split in enumerate(("train", "val", "test")):
        noise = np.random.default_rng(seed).integers(0, 80, (48, 16, 16))
        files[split] = str(tmp_path / f"{split}.npz")
        np.savez(files[split], images=(labels[:, None, None] * 80 + noise).astype(np.uint8), labels=labels)

    def make(*networks: Any, **changes: Any) -> StudySpec:
        outliers = [{"name": "noise", "limit": 8}]
        study = {"name": "mixed", "inliers": files, "outliers": outliers, "networks": networks, "detectors": ["msp"]}
        return StudySpec.model_validate({**study, **changes})

    return make


def sources(study: Study) -> list[Any]:
    return [subject.fit.network for trial in study.trials for subject in trial.subjects]


def problem(*networks: Any) -> str:
    with pytest.raises(ValueError) as caught:
        StudySpec.model_validate({"name": "x", "inliers": "toy", "detectors": ["msp"], "networks": networks})
    return str(caught.value)


def test_members_are_the_same_cells_as_alone(ready: Any) -> None:
    alone = [{"name": "lenet", "train": RECIPE}, {"name": "resnet20", "width": 2, "train": RECIPE}]
    mixed, lenet, resnet = sources(from_spec(ready(MIXED, *alone, budget="full")))
    assert isinstance(mixed, JoinedNetworks)
    assert [cell.id for cell in mixed.requires] == [lenet.cell.id, resnet.cell.id]
    assert mixed.label == "mixed"
    assert len({cell.id for cell in mixed.requires}) == 2


def test_a_run_trains_every_member_once(ready: Any, tmp_path: Path) -> None:
    spec = ready(MIXED, {"name": "lenet", "train": RECIPE}, detectors=["msp", "ensemble"], budget="full")
    run = farout.run(spec, tmp_path / "runs")
    assert not run.outcome.failed
    mixed = sources(from_spec(spec))[0].build(Store(tmp_path / "runs"))
    images = torch.rand(4, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        parts = torch.stack([member(images).logits.softmax(1) for member in mixed.members])
        torch.testing.assert_close(mixed(images).logits.exp(), parts.mean(0))
    assert [type(member.module).__name__ for member in mixed.members] == ["LeNet", "ResNet"]
    assert len(list((tmp_path / "runs").rglob("weights.safetensors"))) == 2


def test_keys_of_a_member_come_before_those_of_the_ensemble(ready: Any) -> None:
    own = {"name": "resnet20", "width": 2, "seed": 5, "train": {**RECIPE, "lr": 0.5}}
    (mixed,) = sources(from_spec(ready({"ensemble": ["lenet", own], "train": RECIPE, "seed": 9})))
    assert [(member.cell.seed, member.cell.recipe.lr) for member in mixed.members] == [(9, 0.01), (5, 0.5)]
    assert mixed.label == "lenet + resnet20"


def test_a_seed_of_its_own_makes_other_networks_once_for_all_seeds(ready: Any) -> None:
    sanity = {**MIXED, "seed": 7, "label": "sanity"}
    study = from_spec(ready(MIXED, sanity, seeds=[7, 8], budget="full"))
    assert [[s.network for s in trial.subjects] for trial in study.trials] == [["mixed", "sanity"], ["mixed"]]
    first, same, second = ([cell.id for cell in source.requires] for source in sources(study))
    assert first == same
    assert not set(first) & set(second)


def test_repeated_members_start_from_the_seed_of_the_network(ready: Any) -> None:
    repeated = {"name": "lenet", "members": 2, "train": RECIPE}
    five, default = sources(from_spec(ready({**repeated, "seed": 5, "label": "five"}, repeated, seeds=[5])))
    assert [cell.id for cell in five.requires] == [cell.id for cell in default.requires]


def test_stored_and_trained_networks_may_be_mixed(ready: Any, tmp_path: Path) -> None:
    save_weights(create("lenet", 3, 16, 1, seed=4), tmp_path / "lenet.safetensors")
    stored = {"name": "lenet", "weights": str(tmp_path / "lenet.safetensors")}
    spec = ready({"ensemble": [stored, {"name": "resnet20", "width": 2, "train": RECIPE}]}, seeds=[0, 1])
    study = from_spec(spec)
    assert [len(source.requires) for source in sources(study)] == [1, 1]  # trained anew with each seed
    assert sources(study)[0].members[0].identity() == create("lenet", 3, 16, 1, seed=4).digest


def test_a_budget_counts_an_ensemble_as_one_network(ready: Any) -> None:
    study = from_spec(ready(MIXED, {"name": "lenet", "train": {"epochs": 20}}, budget="quick"))
    assert [source.label for source in sources(study)] == ["mixed"]
    assert study.cuts == ["1 of 2 networks to be trained: lenet", "12 of 20 epochs of training"]


def test_an_ensemble_survives_json() -> None:
    spec = EnsembleSpec.model_validate({**MIXED, "seed": 3})
    assert EnsembleSpec.model_validate_json(spec.model_dump_json()) == spec
    assert spec.parts == tuple(
        NetworkSpec.model_validate({**member, "train": RECIPE, "seed": 3})
        for member in ({"name": "lenet"}, {"name": "resnet20", "width": 2})
    )


@pytest.mark.parametrize(
    ("network", "said"),
    [
        ({"ensemble": ["lenet"], "train": {}}, "at least 2 items"),
        ({"ensemble": "lenet", "train": {}}, "valid tuple"),
        ({"ensemble": ["lenet", 3], "train": {}}, "NetworkSpec"),
        ({"ensemble": ["lenet", "lenet"], "train": {}}, "network 'lenet' is listed twice; give one of them another"),
        ({"ensemble": ["lenet", "alexnet"]}, "network 'lenet' has no weights"),
        ({"ensemble": ["lenet", "alexnet"], "trian": {}}, "unknown key in ensemble: 'trian'. Did you mean 'train'?"),
        ({"ensemble": ["lenet", "alexnet"], "train": {}, "width": 3}, "unknown key in ensemble: 'width'"),
        ({"ensemble": ["lenet", {"name": "alexnet", "members": 2}], "train": {}}, "'alexnet' is itself an ensemble"),
        ({"ensemble": ["lenet", {"ensemble": ["lenet"]}], "train": {}}, "ensemble.1.name"),
        ({"name": "lenet", "weights": "w.pt", "seed": 3}, "seed: 3 needs train:"),
        ({"name": "lenet", "train": {}, "seed": -1}, "greater than or equal to 0"),
        ({"name": "lenet", "train": {"preset": "raised_bar"}}, "unknown preset of a training: 'raised_bar'"),
        ({"name": "lenet", "train": {}, "widht": 3}, "unknown key in network: 'widht'. Did you mean 'width'?"),
    ],
)
def test_wrong_entries_are_refused(network: Any, said: str) -> None:
    assert said in problem(network)


def test_the_place_of_an_error_is_named(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(
        "inliers: toy\ndetectors: [msp]\nnetworks: [{ensemble: [lenet, {name: alexnet, side: x}], train: {}}]"
    )
    with pytest.raises(ValueError, match=r"networks\.0\.ensemble\.1\.side: Input should be a valid integer"):
        StudySpec.read(study)


def test_a_preset_in_a_study_is_that_recipe(ready: Any) -> None:
    network = {"name": "lenet", "train": {"preset": "raised_bar_mnist", "batch": 24}}
    (trained,) = sources(from_spec(ready(network, budget="full")))
    assert (trained.cell.recipe.epochs, trained.cell.recipe.milestones) == (100, (40, 60))
    (short,) = sources(from_spec(ready(network, budget="quick")))
    assert short.cell.recipe.milestones == pytest.approx((3.2, 4.8))
