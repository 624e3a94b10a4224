"""`farout generate`: a set on disk that loads again, with its measures; the same command continues."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

import farout
from farout.networks import create, load_weights
from farout.study.store import Store
from helpers.command_line import farout as command
from helpers.command_line import refused
from helpers.generated_sets import NEAR, PLAIN, SHIFTED, write_data


def settings(spec: dict[str, object]) -> list[str]:
    """Return the options that give the settings of a set as in a study."""
    pairs = [
        (key, yaml.safe_dump(value, default_flow_style=True).split("\n...")[0].strip()) for key, value in spec.items()
    ]
    return [part for key, value in pairs if key != "name" for part in ("--set", f"{key}={value}")]


def generate(folder: Path, spec: dict[str, object], *options: object) -> tuple[object, ...]:
    data, out = folder / "blobs.npz", folder / "out"
    return (
        "generate",
        spec["name"],
        "--data",
        data,
        "--out",
        out,
        "--workers",
        0,
        "--quiet",
        *settings(spec),
        *options,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a Near-OoD set."""
    folder = tmp_path_factory.mktemp("generate")
    write_data(folder)
    ended = command(*generate(folder, NEAR, "--budget", "full"))
    assert ended.code == 0, ended.err
    assert "      100 images  " in ended.out
    assert "samples have mutual information in [" in ended.out
    assert "FID to the training images on features of lenet" in ended.out
    assert "accuracy of the ensemble on 70 images of blobs: lenet " in ended.out
    return folder


def test_set_loads_with_its_attributes(folder: Path) -> None:
    images, facts = farout.load(folder / "out"), json.loads((folder / "out" / "near_ood.json").read_text())
    assert len(images) == facts["images"] == 100
    assert set(images.attributes) == {"mi", "lambda_s"}
    assert ((images.attributes["mi"] >= facts["low"]) & (images.attributes["mi"] <= facts["high"])).all()
    assert set(images.attributes["lambda_s"]) == {1.0, 2.0}
    fid = facts["fid"]
    assert fid["undertrained"] == (fid["fid"] > 0.5 * fid["noise"])
    assert facts["settings"]["lambda_s"] == [1, 2]
    assert facts["data"]["images"] == 128


def test_description_has_the_test_accuracy_of_every_member_of_the_ensemble(folder: Path) -> None:
    members = json.loads((folder / "out" / "near_ood.json").read_text())["ensemble"]
    store, test = Store(folder / "out" / ".trained"), farout.load(folder / "blobs.npz", "test")
    trained = [path for path in store.root.glob("cells/*") if store.facts(path.name)["title"] == "train lenet"]
    expected = []
    for path in trained:
        network = load_weights(create("lenet", 2, 16, 1), path / "weights.safetensors")
        with torch.inference_mode():
            predicted = network(test.batch(np.arange(70))).logits.argmax(1).numpy()
        expected.append({"network": "lenet", "accuracy": (predicted == test.labels).mean(), "n": 70, "images": "blobs"})
    assert len(members) == 2
    assert sorted(members, key=str) == sorted(expected, key=str)


def test_same_command_computes_nothing(folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (folder / "out").rglob("*")}
    assert command(*generate(folder, NEAR, "--budget", "full")).code == 0
    assert {path: path.stat().st_mtime_ns for path in (folder / "out").rglob("*")} == before


def test_other_settings_do_not_replace_a_set(folder: Path) -> None:
    said = refused(*generate(folder, NEAR, "--budget", "full", "--count", 90))
    assert "near_ood.npz holds another set (see near_ood.json); choose another folder with --out" in said


def test_second_set_uses_the_networks_of_the_first(folder: Path) -> None:
    store = Store(folder / "out" / ".trained")
    before = {path.name for path in store.root.glob("cells/*")}
    assert command(*generate(folder, SHIFTED, "--budget", "full")).code == 0
    titles = [store.facts(path.name)["title"] for path in store.root.glob("cells/*") if path.name not in before]
    assert sorted(title for title in titles if title.startswith("train ")) == ["train shifted", "train shifted, plain"]
    shifted, test = farout.load(folder / "out" / "shifted.npz"), farout.load(folder / "blobs.npz", "test")
    assert shifted.labels is not None
    assert test.labels is not None
    np.testing.assert_array_equal(shifted.labels, test.labels)


def test_images_without_splits_are_all_training_images(tmp_path: Path) -> None:
    train = farout.load(write_data(tmp_path), "train")
    np.savez(
        tmp_path / "only.npz", images=(train.batch(np.arange(128)) * 255).byte().numpy()[:, 0], labels=train.labels
    )
    images = farout.generate(
        "generated", tmp_path / "only.npz", tmp_path / "out", generator=PLAIN["generator"], count=5
    )
    assert len(images) == 5
    assert json.loads((tmp_path / "out" / "generated.json").read_text())["data"]["images"] == 116, "a tenth is held out"


def test_bad_usage(tmp_path: Path) -> None:
    write_data(tmp_path)
    assert "lambda_s: Value error, every" not in (said := refused(*generate(tmp_path, {**NEAR, "lambda_s": [1, 1]})))
    assert "lambda_s: every lambda_s must be listed once" in said
    assert "unknown interval 'emnist'" in refused(*generate(tmp_path, {**NEAR, "interval": "emnist"}))
    assert not (tmp_path / "out").exists()


def test_budget_is_told(tmp_path: Path) -> None:
    write_data(tmp_path)
    spec = {**NEAR, "lambda_s": [1, 2, 3], "interval": [0.6, 0.3]}
    assert "two numbers from 0 on in ascending order" in refused(*generate(tmp_path, spec, "--budget", "quick"))


def test_help_shows_an_example() -> None:
    ended = command("generate", "--help")
    assert ended.code == 0
    assert "Example: farout generate near_ood --data mnist --out near_mnist" in " ".join(ended.out.split())
