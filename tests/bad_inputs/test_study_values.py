"""Study files with a wrong value somewhere: one clear error that names the place."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from farout.study.spec import StudySpec
from farout.study.yaml_files import load
from helpers.command_line import farout, refused
from helpers.written_runs import lenet_weights

BASE: dict[str, Any] = {
    "inliers": {"train": {"name": "toy", "split": "train", "limit": 16}, "test": {"name": "toy", "limit": 8}},
    "outliers": [{"name": "noise", "limit": 8}],
    "networks": [{"name": "lenet", "weights": "lenet.safetensors"}],
    "detectors": ["msp"],
}
TRAINED = {"name": "lenet", "train": {"epochs": 1}}
NAN, INFINITE = float("nan"), float("inf")

WRONG: list[tuple[str, Any, str]] = [
    *[("name", value, "name: ") for value in ("", "../x", "a b", 3, None, [], {"a": 1}, ".x")],
    *[("budget", value, "budget: ") for value in ("", "fast", 3, None, [])],
    *[("seeds", value, "seeds") for value in ([], 3, "x", [NAN], [-1], [0, 0], [None], [2.5], {}, [[0]])],
    *[("inliers", value, "inliers") for value in (None, 3, [], {}, "", "none", {"train": "toy"})],
    *[("inliers", value, "split of 'toy'|no file or folder") for value in ("toy:none", "a/b", "none.npz")],
    *[("inliers.test.limit", value, "inliers.test.limit") for value in (0, -1, "x", 2.5, NAN, INFINITE, [], {})],
    *[("inliers.test.split", value, "split") for value in ("none", 3, None, [], "test/ood_none")],
    *[("inliers.test.name", value, "inliers.test|no file") for value in ("", 3, None, "none", "../none", [])],
    *[("inliers.test.label", value, "inliers.test.label") for value in ("", 3, [])],
    *[("inliers.test.options", value, "options|parameter") for value in (3, [], "x", {"none": 1})],
    *[("inliers.test.options", {"side": value}, "side") for value in (0, -1, "x", 2.5, NAN, None, [8])],
    *[("inliers.test.none", 1, "unknown key in data: 'none'")],
    *[("outliers", value, "outliers") for value in (3, "noise", {}, [3], [None], [[]], ["none"], [""], [{}])],
    *[("networks", value, "networks|network") for value in (3, "lenet", [3], ["lenet"], ["none"], [""], [{}], [None])],
    *[("networks.0.name", value, "networks.0.name|unknown network|timm") for value in ("", "none", 3, [], "timm:")],
    *[("networks.0.label", value, "networks.0.label") for value in ("", 3, [], {})],
    *[("networks.0.weights", value, "weights") for value in ("", "none.pt", 3, [], ["a.pt"], {}, "../..", True)],
    *[("networks.0.classes", value, "classes") for value in (-1, 1, 0, 7, "x", 2.5, NAN, 10**9, [])],
    *[("networks.0.side", value, "side") for value in (0, -1, 3, "x", NAN, 10**6, [])],
    *[("networks.0.mean", value, "mean") for value in ([], "x", [NAN] * 3, [0.5, 0.5], ["x"] * 3, {}, [INFINITE] * 3)],
    *[("networks.0.std", value, "std") for value in ([], "x", [0, 0, 0], [-1, 1, 1], [NAN] * 3, [None] * 3)],
    *[("networks.0.pretrained", value, "pretrained") for value in (True, "x", 3, [])],
    *[("networks.0.members", value, "members") for value in (0, 1, -1, 2, 101, 10**6, "x", NAN, [])],
    *[("networks.0.none", 1, "unknown key in network: 'none'")],
    *[("detectors", value, "detectors") for value in ([], 3, "msp", {}, [3], [None], [{}], [[]])],
    *[("detectors.0", value, "unknown detector|detectors.0") for value in ("none", "", {"name": "none"}, {"name": 3})],
    *[("detectors.0", {"name": "msp", "label": value}, "detectors.0.label") for value in ("", 3, [])],
    *[("detectors.0", {"name": "knn", "k": value}, "k=|k must") for value in (0, -1, 2.5, "x", None, [1], NAN, 10**9)],
    *[("detectors.0", {"name": "odin", "epsilon": value}, "epsilon") for value in (-1, "x", NAN, INFINITE, None, [])],
    *[("detectors.0", {"name": "odin", "temperature": value}, "temperature") for value in (0, -1, "x", NAN, [])],
    *[("detectors.0", {"name": "react", "percentile": value}, "percentile") for value in (-1, 0.9, 101, "x", NAN)],
    *[("detectors.0", {"name": "vim", "dim": value}, "dim") for value in (0, -1, 10**9, "x", [])],
    *[("detectors.0", {"name": "gram", "orders": value}, "orders") for value in ([], [0], [99], "x", 3, None)],
    *[("detectors.0", {"name": "msp", "none": 1}, "unknown parameter of detector 'msp': 'none'")],
    *[("protocols", value, "protocol") for value in ([], 3, "clean", [3], ["none"], [""], ["clean", "clean"])],
    *[("protocols", [{"name": "clean", "none": 1}], "unknown parameter of protocol 'clean'")],
    *[("protocols", [{"name": "attributes", "shift": value}], "shift|attribute") for value in (3, "x", [1], NAN)],
    *[("protocols", [{"name": "evg", "variations": value}], "variation") for value in (3, "x", ["none"], [3], NAN)],
    *[("protocols", [{"name": "evg", "methods": value}], "method|search") for value in (3, "x", ["none"], [3])],
    *[("protocols", [{"name": "evasion", "attacks": value}], "attack") for value in (3, "x", ["none"], [3], NAN)],
    *[("protocols", [{"name": "rood", "frost_dir": value}], "frost_dir|frost") for value in (3, "none", [])],
    *[("validation_outliers", value, "validation_outliers") for value in (3, "", "none", [], {}, "noise")],
    ("none", 1, "unknown key in study: 'none'"),
    ("networks.0", {**TRAINED, "weights": "x.pt"}, "no weights at"),
    *[("networks.0", {"name": "lenet", "train": value}, "networks.0.train") for value in (3, "x", [], {"none": 1})],
]  # fmt: skip
TRAINING: list[tuple[str, Any]] = [
    *[("epochs", value) for value in (0, -1, 2.5, "x", NAN, [])],
    *[("lr", value) for value in (0, -1, NAN, INFINITE, "x", None, [])],
    *[("batch", value) for value in (0, 1, -1, "x", 2.5, NAN)],
    *[("weight_decay", value) for value in (-1, NAN, INFINITE, "x", None)],
    *[("schedule", value) for value in ("", "none", 3, None)],
    *[("augment", value) for value in ("", "all", 3, None, ["flip", "all"])],
    *[("milestones", value) for value in ([5], "x", 3)],
    *[("threads", value) for value in (0, 10_000)],
    *[("steps", value) for value in (0, 5)],
    *[("ema", value) for value in (0, 1)],
]
TEXTS = {
    "": "must be a mapping",
    "3": "must be a mapping",
    "[]": "must be a mapping",
    "[": "cannot read the study",
    "a: b: c": "cannot read the study",
    "a: 1\na: 2": "the key 'a' is given twice",
    "? [1]\n: 2": "cannot be a key",
    "? {a: 1}\n: 2": "cannot be a key",
    "!!python/object/apply:os.getcwd []": "could not determine a constructor",
    "a: !!int x": "cannot read the study",
    "a: !!float x": "cannot read the study",
    "a: 2020-13-45": "cannot read the study",
    "a: *none": "undefined alias",
    "a: \x01": "cannot read the study",
    "--- a\n--- b": "cannot read the study",
    "%YAML 9.9": "cannot read the study",
    "\t": "cannot read the study",
    "<<: 3": "cannot read the study",
    "{}": "inliers: Field required",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("studies")
    lenet_weights(made)
    return made


def said(folder: Path, study: Any) -> str:
    (folder / "study.yaml").write_text(study if isinstance(study, str) else yaml.safe_dump(study))
    return refused("plan", folder / "study.yaml", "--out", folder / "run")


def changed(place: str, value: Any) -> dict[str, Any]:
    study = copy.deepcopy(BASE)
    *way, last = [int(part) if part.isdecimal() else part for part in place.split(".")]
    target: Any = study
    for part in way:
        target = target[part]
    target[last] = value
    return study


def test_the_study_itself_is_right(folder: Path) -> None:
    (folder / "study.yaml").write_text(yaml.safe_dump(BASE))
    assert farout("plan", folder / "study.yaml", "--out", folder / "run").code == 0


@pytest.mark.parametrize(("place", "value", "words"), WRONG, ids=[f"{p}={v!r}"[:60] for p, v, _ in WRONG])
def test_a_wrong_value_is_one_clear_error(folder: Path, place: str, value: Any, words: str) -> None:
    text = said(folder, changed(place, value))
    assert any(word in text for word in words.split("|")), text


@pytest.mark.parametrize(("field", "value"), TRAINING)
def test_a_wrong_recipe_is_one_clear_error(folder: Path, field: str, value: Any) -> None:
    network = {"name": "lenet", "train": {"epochs": 1, field: value}}
    text = said(folder, changed("networks.0", network))
    assert "networks.0.train" in text
    assert field in text


@pytest.mark.parametrize("text", TEXTS, ids=repr)
def test_a_text_that_is_no_study_is_one_clear_error(folder: Path, text: str) -> None:
    assert TEXTS[text] in said(folder, text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1e-3", 0.001),
        ("1E5", 1e5),
        ("1e+3", 1000.0),
        ("-2e3", -2000.0),
        ("+.5e1", 5.0),
        ("2.e2", 200.0),
        ("1.5E-2", 0.015),
    ],
)
def test_numbers_with_an_exponent_are_numbers(folder: Path, text: str, number: float) -> None:
    """YAML 1.1 wants a point and a sign, and reads these as text."""
    assert load(text) == number
    assert load(f"a: [{text}]") == {"a": [number]}


@pytest.mark.parametrize("text", ["e3", "1e", "v1e3", "1e3x", "'1e-3'", "0x1e3g"])
def test_words_stay_words(text: str) -> None:
    assert isinstance(load(text), str)


def test_a_study_takes_them(folder: Path) -> None:
    text = (
        "inliers: {test: toy}\ndetectors: [{name: odin, epsilon: 1e-3}]\nnetworks: [{name: lenet, train: {lr: 1e-2}}]"
    )
    (folder / "exponents.yaml").write_text(text)
    study = StudySpec.read(folder / "exponents.yaml")
    assert study.detectors[0].params == {"epsilon": 0.001}
    assert study.networks[0].train is not None
    assert study.networks[0].train.lr == 0.01
