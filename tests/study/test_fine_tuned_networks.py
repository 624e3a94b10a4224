"""Studies that fine-tune: `train` beside `weights`, for other classes than the file knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import farout
from farout.networks import Network, create, load_weights, save_weights
from farout.study.spec import StudySpec
from farout.study.store import Store
from farout.study.study import Study, from_spec


@pytest.fixture
def three(tmp_path: Path) -> dict[str, str]:
    """Inliers of three classes, each of a brightness of its own."""
    labels, files = np.arange(48) % 3, {}
    for seed, split in enumerate(("train", "val", "test")):
        noise = np.random.default_rng(seed).integers(0, 80, (48, 16, 16, 3))
        files[split] = str(tmp_path / f"{split}.npz")
        np.savez(files[split], images=(labels[:, None, None, None] * 80 + noise).astype(np.uint8), labels=labels)
    return files


def study_of(inliers: dict[str, str], seeds: tuple[int, ...] = (0,), **network: Any) -> StudySpec:
    recipe = {"epochs": 1, "batch": 24, "lr": 0.01}
    spec = {
        "name": "tuned",
        "inliers": inliers,
        "outliers": [{"name": "noise", "limit": 8}],
        "networks": [{"name": "vit_tiny", "train": recipe, **network}],
        "detectors": ["msp"],
        "seeds": seeds,
    }
    return StudySpec.model_validate(spec)


def checkpoint(folder: Path, name: str = "vit_tiny", side: int = 16, seed: int = 7) -> tuple[Path, Network]:
    network, file = create(name, 7, side, seed=seed), folder / "start.safetensors"
    save_weights(network, file)
    return file, network


def networks_of(study: Study) -> list[Any]:
    return [trial.subjects[0].fit.network for trial in study.trials]


def test_the_body_starts_from_the_file_and_the_head_is_new(three: dict[str, str], tmp_path: Path) -> None:
    file, given = checkpoint(tmp_path)
    first, second = networks_of(from_spec(study_of(three, (0, 1), weights=str(file))))
    start, other = first.preview().state_dict(), second.preview().state_dict()
    for key, value in given.state_dict().items():
        if key.startswith("head."):
            assert start[key].shape == (3, *value.shape[1:])
        else:
            assert torch.equal(start[key], value)
            assert torch.equal(other[key], value)
    assert torch.equal(start["head.weight"], create("vit_tiny", 3, 16, seed=0).state_dict()["head.weight"])
    assert not torch.equal(start["head.weight"], other["head.weight"])


def test_the_identity_is_that_of_the_starting_weights(three: dict[str, str], tmp_path: Path) -> None:
    file, given = checkpoint(tmp_path, "lenet")
    (tuned,) = networks_of(from_spec(study_of(three, name="lenet", weights=str(file))))
    assert tuned.cell.identity["untrained"] == tuned.preview().digest
    save_weights(given, tmp_path / "copy.safetensors")
    (copied,) = networks_of(from_spec(study_of(three, name="lenet", weights=str(tmp_path / "copy.safetensors"))))
    checkpoint(tmp_path / "other", "lenet", seed=8)
    others = study_of(three, name="lenet", weights=str(tmp_path / "other" / "start.safetensors"))
    (other,) = networks_of(from_spec(others))
    (scratch,) = networks_of(from_spec(study_of(three, name="lenet")))
    assert tuned.cell.id == copied.cell.id
    assert len({network.cell.id for network in (tuned, other, scratch)}) == 3


def test_a_run_fine_tunes_and_scores(three: dict[str, str], tmp_path: Path) -> None:
    file, given = checkpoint(tmp_path, "lenet")
    spec = study_of(three, name="lenet", weights=str(file))
    assert not farout.run(spec, tmp_path / "runs").outcome.failed
    (tuned,) = networks_of(from_spec(spec))
    trained, start = tuned.build(Store(tmp_path / "runs")), tuned.preview()
    moved = [(trained.state_dict()[key] - value).norm() for key, value in start.state_dict().items()]
    assert 0 < torch.stack(moved).norm() < torch.stack([value.norm() for value in given.state_dict().values()]).norm()
    save_weights(trained, tmp_path / "tuned.safetensors")
    assert load_weights(create("lenet", 3, 16), tmp_path / "tuned.safetensors").digest == trained.digest


def test_members_start_from_one_file_with_heads_of_their_own(three: dict[str, str], tmp_path: Path) -> None:
    file, _ = checkpoint(tmp_path, "lenet")
    (joined,) = networks_of(from_spec(study_of(three, name="lenet", weights=str(file), members=2)))
    (first, head), (second, other) = (
        [dict(member.preview().state_dict()), member.preview().head.weight] for member in joined.members
    )
    assert not torch.equal(head, other)
    assert all(torch.equal(first[key], second[key]) for key in first if first[key].shape[:1] != (3,))


def test_a_file_that_changes_after_the_plan_is_noticed(three: dict[str, str], tmp_path: Path) -> None:
    file, _ = checkpoint(tmp_path, "lenet")
    (tuned,) = networks_of(from_spec(study_of(three, name="lenet", weights=str(file))))
    assert tuned.cell.identity["untrained"]
    checkpoint(tmp_path, "lenet", seed=9)
    with pytest.raises(RuntimeError, match="the weights of lenet have changed since the run was planned; run again"):
        tuned.preview()


def test_a_file_of_another_architecture_is_found_while_planning(three: dict[str, str], tmp_path: Path) -> None:
    file, _ = checkpoint(tmp_path, "lenet")
    with pytest.raises(ValueError, match=r"start\.safetensors lacks .*; unexpected names in it: "):
        from_spec(study_of(three, weights=str(file)))
