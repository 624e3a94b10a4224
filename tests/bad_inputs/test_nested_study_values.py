"""Wrong values deep inside a study file: one clear error each that names the key or the value, before any work."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.command_line import farout, refused
from helpers.written_runs import lenet_weights

NAN, HUGE = float("nan"), 10**12
BASE: dict[str, Any] = {
    "inliers": {
        "train": {"name": "toy", "split": "train", "limit": 16},
        "val": {"name": "toy", "split": "val", "limit": 8},
        "test": {"name": "toy", "limit": 8},
    },
    "outliers": [{"name": "noise", "limit": 8}],
    "networks": [{"name": "lenet", "weights": "lenet.safetensors"}],
    "detectors": ["msp"],
}
TOY = {"name": "toy", "split": "test/ood_pair", "limit": 8}
LENETS = [{"name": "lenet", "seed": seed, "train": {"epochs": 1}} for seed in (1, 2)]
GAN: dict[str, Any] = {"name": "dcgan", "width": 4, "dim": 4, "train": {"steps": 2}}
NEAR: dict[str, Any] = {"generator": GAN, "ensemble": LENETS, "count": 8}
BAR: dict[str, Any] = {"name": "raised_bar", "near": False, "shifted": False, "sanity": False, "corruptions": False}
NO_COUNT = (0, -1, 2.5, "x", NAN, [], {}, True)
NO_FLAG = ("x", 3, None, [])
NO_LABELS = ("msp", ["none"], [3], 3, [], {}, [""], ["msp", "msp"])
Case = tuple[str, dict[str, Any], str]


def protocol(name: str, key: str, words: str, *values: Any) -> Iterator[Case]:
    """A case for each value of a protocol's setting."""
    for value in values:
        yield f"{name} {key}={value!r:.60}", {"protocols": [{"name": name, key: value}]}, words


def bar(part: str, words: str, *values: Any, near: Any = False) -> Iterator[Case]:
    """A case for each value of a part of `raised_bar`."""
    for value in values:
        yield f"raised_bar {part}={value!r:.60}", {"protocols": [BAR | {"near": near} | {part: value}]}, words


def near(key: str, words: str, *values: Any) -> Iterator[Case]:
    """A case for each setting of a Near-OoD set."""
    for value in values:
        yield f"near {key}={value!r:.60}", {"protocols": [BAR | {"near": NEAR | {key: value}}]}, words


def detector(name: str, key: str, words: str, *values: Any, **others: Any) -> Iterator[Case]:
    """A case for each value of a detector's parameter."""
    for value in values:
        yield f"{name} {key}={value!r:.60}", {"detectors": [{"name": name, key: value}], **others}, words


CASES: list[Case] = [
    # Protocols
    *protocol("evg", "chains", "chains must be", *NO_COUNT),
    *protocol("evg", "steps", "steps must be", *NO_COUNT),
    *protocol("evg", "standardize_on", "standardize_on must be", "train", "", 3, None),
    *protocol("evg", "control", "control must be true or false", *NO_FLAG),
    *protocol("evg", "transfer", "transfer must be true or false", *NO_FLAG),
    *protocol("evg", "detectors", "detector", *NO_LABELS),
    *protocol("evg", "landscape", "landscape|variation|coordinate", 3, "x", "affine", [], {"name": "slice"}),
    *protocol("evg", "variations", "variation|rotation|hue|generator|radius|of must|attributes varies",
              [], ["affine", "affine"], [{"name": "affine", "rotation": "x"}], [{"name": "affine", "none": 1}],
              [{"name": "color", "hue": [1, 0]}], [{"name": "latent"}], [{"name": "latent", "generator": "none"}],
              [{"name": "pixel", "radius": -1}], [{"name": "attributes"}], [{"name": "composed", "of": ["affine"]}],
              [{"of": "affine"}], [{"name": 3}], [{"name": "affine", "label": ""}]),
    *protocol("evg", "methods", "method|temperature|sigma|draws|parameter",
              [], ["mh", "mh"], [{"name": "mh", "temperature": -1}], [{"name": "mh", "sigma": "x"}],
              [{"name": "evolution", "draws": 0}], [{"name": "mh", "none": 1}]),
    *protocol("evasion", "images", "images must be", *NO_COUNT),
    *protocol("evasion", "adaptive_images", "adaptive_images must be", *NO_COUNT),
    *protocol("evasion", "rounded", "rounded must be true or false", *NO_FLAG),
    *protocol("evasion", "transfer", "transfer must be true or false", "x"),
    *protocol("evasion", "attention", "attention must be true or false", "x"),
    *protocol("evasion", "detectors", "detector", *NO_LABELS[:3]),
    *protocol("evasion", "attacks", "attack|epsilon|steps",
              [], ["pgd", "pgd"], [{"name": "pgd", "epsilon": -1}], [{"name": "pgd", "epsilon": 8}],
              [{"name": "pgd", "steps": 0}], [{"name": "pgd", "none": 1}], [{"name": "pgd", "label": ""}],
              [{"name": "pgd", "label": 3}], [{"epsilon": 1}]),
    *protocol("rood", "images", "images must be", *NO_COUNT),
    *protocol("rood", "one_class", "one_class|detector", "x", 3, ["none"], [3], {}),
    *protocol("rood", "setups", "setup|shift|severity",
              3, "x", [], ["Z"], {}, {"w": []}, {"w": ["none"]}, {"w": [{"name": "fog", "severity": 9}]}, {"w": 3},
              {"": ["fog"]}, ["A", "A"], {"w": ["fog", "fog"]}),
    *protocol("attributes", "shift", "shift|attribute", [], ["none"], ["hue", "hue"]),
    *protocol("cost", "images", "images|parameter", *NO_COUNT[:4]),
    *protocol("clean", "images", "unknown parameter of protocol 'clean'", 8),
    # Generated sets
    *bar("near", "near", 3, "x", [], {"none": 1}, {"count": 8, "counts": 8}),
    *bar("shifted", "shifted", 3, "x", []),
    *bar("corruptions", "corruption|shift|severity", 3, "x", [], ["none"], ["fog", "fog"], [{"name": "fog",
         "severity": 9}]),
    *bar("sanity", "sanity", 3, "x", {"name": "none"}, {"name": "lenet", "seed": -1}),
    *bar("exposure", "exposure", 3, "x", {"none": 1}, {"weight": -1}, {"weight": "x"}, {"outliers": 3}, near=NEAR),
    *near("count", "count", 0, -1, 2.5, "x", NAN, []),
    *near("lambda_s", "lambda_s", -1, "x", NAN, [], [-1], ["x"], [1, 1], [1.0] * 200),
    *near("interval", "interval", "x", [1], [1, 0], [NAN, 1], 3, [0, 1, 2]),
    *near("seed", "seed", -1, "x", 2.5),
    *near("generator", "generator|width|setting|epochs",
          "none", "none.safetensors", 3, [], {"name": "none"}, {"name": "dcgan", "width": 0}, {"name": "dcgan",
          "width": "x"},
          {"name": "dcgan", "none": 1}, {"name": "dcgan", "train": {"none": 1}}, {"name": "dcgan",
          "train": {"epochs": 0}},
          {"name": "dcgan", "train": 3}, {"name": "dcgan", "weights": "none.safetensors"}),
    *near("ensemble", "ensemble", 3, "x", [], ["none"], [3]),
    # Outliers to learn from
    *[(f"auxiliary {value!r:.50}", {"auxiliary_outliers": value, "detectors": ["oe"]}, "auxiliary_outliers|outliers")
      for value in (3, "", "none", {}, [3], [None], {"name": "noise", "limit": 0}, {"name": "noise", "limit": 8}, [])],
    ("oe without outliers", {"detectors": ["oe"]}, "auxiliary_outliers"),
    ("tested outliers as auxiliary", {"auxiliary_outliers": BASE["outliers"], "detectors": ["oe"]}, "noise"),
    # Parameters of detectors
    *detector("ae", "width", "width", 0, -1, 2.5, "x", NAN, []),
    *detector("ae", "latent", "latent", 0, "x"),
    *detector("ae", "preset", "preset", "none", 3),
    *detector("ae", "training", "training|setting|epochs|lr|batch|schedule|augment",
              3, "x", {"none": 1}, {"epochs": 0}, {"epochs": NAN}, {"lr": -1}, {"batch": 0}, {"schedule": "none"}),
    *detector("ae", "weights", "weights|detector", "none.safetensors", "lenet.safetensors", 3, [], "."),
    *detector("glow", "levels", "levels", 0, "x"),
    *detector("pixelcnn", "mixtures", "mixtures", 0, "x"),
    *detector("likelihood_ratio", "density", "density", "none", 3),
    *detector("likelihood_ratio", "mutation", "mutation", 2, -1, "x"),
    *detector("input_complexity", "codec", "codec", "none", 3),
    *detector("ssd", "encoder", "encoder|network", "none", 3),
    *detector("atom", "scoring", "scoring", "none", 3, auxiliary_outliers=TOY),
    *detector("good", "quantile", "quantile", 2, -1, "x", auxiliary_outliers=TOY),
    *detector("dice", "percentile", "percentile", 0.5, 101, "x"),
    *detector("ash", "percentile", "percentile", 0.5, "x"),
    *detector("ash", "variant", "variant", "none", 3),
    *detector("gen", "gamma", "gamma", -1, "x", NAN),
    *detector("nnguide", "k", "k=|k must", 0, "x", 10**9),
    *detector("knn", "search", "search", "none", 3),
    *detector("temp_scaling", "variant", "variant", "none", 3),
    *detector("mds_layers", "epsilon", "epsilon", -1, "x"),
    *detector("function", "of", "code, which runs|file.py:|no such|expected", "lenet.py:x", "x", 3),
    *detector("http", "url", "url", "x", 3, "ftp://a/b"),
    # Contradictions
    ("two labels", {"detectors": [{"name": name, "label": "a"} for name in ("msp", "ebo")]}, "'a'|a is|two detectors"),
    ("one detector twice", {"detectors": ["msp", "msp"]}, "msp"),
    ("one outlier set twice", {"outliers": [BASE["outliers"][0]] * 2}, "noise"),
    ("two sets of one label", {"outliers": [{**TOY, "label": "a"}, {"name": "noise", "label": "a"}]}, "a"),
    ("one network twice", {"networks": BASE["networks"] * 2}, "lenet"),
    ("no networks", {"networks": []}, "network"),
    ("no training split", {"inliers": {"test": BASE["inliers"]["test"]}, "detectors": ["knn"]}, "train"),
    ("k above the training images", {"detectors": [{"name": "knn", "k": 17}]}, "k=17"),
    ("neither weights nor training", {"networks": [{"name": "lenet"}]}, "weights|train"),
    ("weights of other classes", {"networks": [{**BASE["networks"][0], "classes": 7}]}, "classes|shapes"),
    ("parameters twice", {"detectors": [{"name": "knn", "k": 3, "params": {"k": 4}}]}, "k"),
    ("nothing to plan", {"protocols": [BAR]}, "raised_bar|near"),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("nested")
    lenet_weights(made)
    return made


def test_the_study_itself_is_right(folder: Path) -> None:
    (folder / "study.yaml").write_text(yaml.safe_dump(BASE))
    assert farout("plan", folder / "study.yaml", "--out", folder / "run", "--no-calibrate").code == 0


@pytest.mark.parametrize(("change", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_wrong_value_deep_inside_is_one_clear_error(folder: Path, change: dict[str, Any], words: str) -> None:
    (folder / "study.yaml").write_text(yaml.safe_dump(copy.deepcopy(BASE) | copy.deepcopy(change)))
    said = refused("plan", folder / "study.yaml", "--out", folder / "run", "--no-calibrate")
    assert any(word in said for word in words.split("|")), said
    for internal in ("not supported between", "object is not", "has no attribute", "unexpected keyword", "KeyError"):
        assert internal not in said
    assert not (folder / "run" / "cells").exists()
