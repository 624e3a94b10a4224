"""Wrong arguments of the public Python calls: one clear error each, before any image passes a network."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import farout
from farout import detectors, generators, metrics, networks, search, variations
from farout.networks.network import Network

NAN, INFINITE, HUGE = float("nan"), float("inf"), 10**12
LENET = networks.create("lenet", 4, 32)
MODULE = nn.Sequential(nn.Flatten(), nn.Linear(192, 3))
IMAGES, LABELS = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0)), torch.arange(4)
ONE_CLASS = farout.ImageSet.from_arrays(np.zeros((20, 32, 32, 3), np.uint8), np.zeros(20, int), "one class")
UNLABELED = farout.ImageSet.from_arrays(np.zeros((20, 32, 32, 3), np.uint8), name="unlabeled")
SCORES = np.linspace(-1, 1, 20)
Case = tuple[str, Callable[[], Any], str]


class Mine(farout.Detector):
    """Brightness."""

    def score(self, images: torch.Tensor) -> torch.Tensor:
        raise AssertionError("it was asked for scores")


def brightness(images: torch.Tensor) -> torch.Tensor:
    raise AssertionError("it was asked for scores")


def toy(limit: int = 8, split: str = "test", **options: Any) -> farout.ImageSet:
    return farout.load("toy", split, limit=limit, **options)


def panel(*names: str) -> farout.Panel:
    return farout.Panel(LENET, list(names))


def cases(what: str, call: Callable[[Any], Any], words: str, *values: Any) -> Iterator[Case]:
    """A case for each value."""
    for value in values:
        text = f"shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
        text = re.sub(r" at 0x\w+", "", text)[:50]  # addresses differ between the processes of a test run
        yield f"{what} {text}", lambda value=value: call(value), words


def created(module: Any, name: str, words: str, *settings: dict[str, Any], **others: Any) -> Iterator[Case]:
    """A case for each setting of a component that cannot be created."""
    yield from cases(f"{name}", lambda given: module.create(name, **others, **given), words, *settings)


CASES: list[Case] = [
    # Image sets
    *cases("load", farout.load, "expected the name of a data set or the path", None, 3, [], {}, "", b"toy", "a\0b"),
    *cases("load", farout.load, "no file or folder", "~nobody-of-this-name/x", "x" * 5000, "nope.npz", Path("none")),
    *cases("load", farout.load, "unknown data set", "toy:", "toy:none", ":", "tOy", "cifar"),
    *cases("load", farout.load, "unknown format", "/dev/null"),
    *cases("split", lambda split: toy(split=split), "split of 'toy'", 3, "", None, "none", []),
    *cases("limit", toy, "limit must be", 0, -1, 2.5, "x", NAN, True, []),
    *cases("side", lambda side: toy(side=side), "side", 0, -1, 7, "x", NAN, [8], 2.5),
    *cases("option", lambda name: toy(**{name: 1}), "unknown parameter of data set 'toy'", "none", "sid"),
    *cases("set.limit", lambda n: toy().limit(n), "limit must be a whole number", -1, 2.5, "x", NAN, True),
    *cases("set.batch", lambda rows: toy().batch(rows), "indices", [8], [-1], [NAN], ["a"], [0.5], None, "ab", [True]),
    *cases("set.subset", lambda rows: toy().subset(rows), "indices", [8], [-1], ["a"], [0.5], None),
    *cases("name", lambda name: farout.ImageSet.from_arrays(np.zeros((2, 8, 8, 3), np.uint8), name=name),
           "name must be a text", None, 3, "", []),
    # Networks
    *cases("module", lambda module: farout.Network(module, mean=0, std=1), "expected a torch.nn.Module, got",
           None, 3, "lenet", nn.Linear, len),
    *cases("module", lambda module: farout.Network(module, mean=0, std=1), "must return logits", nn.ReLU(),
           nn.Identity()),
    *cases("mean", lambda mean: farout.Network(MODULE, mean=mean, std=1, side=8), "mean must be|mean and std",
           NAN, INFINITE, "x", None, [0, 0], [], [0, "x", 0], {}, 124),
    *cases("std", lambda std: farout.Network(MODULE, mean=0, std=std, side=8), "std must be", 0, -1, NAN, "x", None,
           [1, 1]),
    *cases("head", lambda head: farout.Network(MODULE, mean=0, std=1, side=8, head=head),
           "unknown submodule|not a Linear",
           "none", 3, "0", nn.Linear(2, 2)),
    *cases("blocks", lambda blocks: farout.Network(MODULE, mean=0, std=1, side=8, blocks=blocks),
           "blocks must list|unknown submodule", "none", 3, ["none"], [3], {"a": 1}),
    *cases("side", lambda side: farout.Network(MODULE, mean=0, std=1, side=side), "side must be a whole number",
           0, -1, "x", 2.5, True, [8]),
    *cases("side", lambda side: farout.Network(MODULE, mean=0, std=1, side=side), "could not be run", 9),
    *cases("input", LENET.normalize, "expected|needs", None, "x", 3, IMAGES[0], IMAGES[:, :2], IMAGES.int(), toy()),
    *cases("create", lambda name: networks.create(name, 4, 32), "unknown network", "none", None, 3, "", "lenet5"),
    # Panels
    *cases("network", lambda network: farout.Panel(network, ["msp"]), "expected a farout.Network", None, "lenet",
           MODULE, 3),
    *cases("detectors", lambda names: farout.Panel(LENET, names),
           "detector|twice", [], "msp", None, ["none"], [3], ["msp", "msp"], [Mine()], [None], ["ae"], 3),
    *cases("labels", lambda label: farout.Panel(LENET, {label: "msp"}), "labels must be", "", "a/b"),
    *cases("train", lambda train: panel("react").fit(train), "val|train|unknown data set", None, 3, "none", [],
           IMAGES[:0], {}),
    *cases("train", lambda train: panel("knn").fit(train), "k=50 needs at least", IMAGES, toy(3), ONE_CLASS),
    *cases("no labels", lambda name: panel(name).fit(UNLABELED, val=UNLABELED), "needs the class of every",
           "mds", "rmds", "she", "mds_layers", "temp_scaling"),
    *cases("few images", lambda name: panel(name).fit(toy(9)), "needs|at least", "nnguide", "knn"),
    *cases("score", panel("msp").score, "images|unknown data set", None, 3, "none", IMAGES * NAN, IMAGES * 3,
           IMAGES - 1),
    *cases("recall", panel("msp").threshold, "recall must lie in", 0, -1, 95, NAN, "x", None, True),
    *cases("member", panel("msp").__getitem__, "unknown detector of this panel", "none", 3, None),
    *cases("panel", lambda path: farout.Panel.load(path, LENET), "no panel at", "none.safetensors", "", 3, None, "/"),
    # Metrics
    *cases("bins", lambda bins: metrics.ece([0.5], [1], bins=bins), "bins is", 0, -1, 2.5, "x", NAN, HUGE, True),
    *cases("confidence", lambda given: metrics.ece(given, [1]), "confidence", [], [NAN], [2], [-0.1], ["a"], None,
           [[0.5]]),
    *cases("correct", lambda given: metrics.ece([0.5], given), "correct", [], [2], ["x"], [1, 0], None),
    *cases("level", lambda level: metrics.auroc_interval(SCORES, SCORES, level=level), "level is",
           0, -1, 95, NAN, "x", None, True),
    *cases("resamples", lambda count: metrics.bootstrap_interval(metrics.auroc, SCORES, SCORES, resamples=count),
           "resamples is", 0, -1, 2.5, "x", None, True),
    *cases("metric", lambda metric: metrics.bootstrap_interval(metric, SCORES, SCORES), "expected a metric", "auroc",
           None, 3),
    *cases("probabilities", metrics.mutual_information, "probabilities",
           None, [], 3, "x", {}, np.zeros((2, 3)), np.zeros((2, 3, 4)), np.full((2, 3, 4), NAN),
           np.full((2, 3, 4), 0.9)),
    *cases("features", lambda rows: metrics.fid(rows, np.eye(6, 4)), "features",
           None, [], 3, "x", np.zeros(2), np.zeros((0, 4)), np.zeros((1, 4)), np.full((5, 4), NAN), np.zeros((5, 3))),
    *cases("p-values", metrics.holm, "expected a list of p-values", None, 3, "x", {"a": 1}, [NAN], [1.5], [-1],
           [[0.1]], ["a"]),
    *cases("images", lambda images: metrics.ssim(IMAGES, images), "expected",
           None, "x", 3, IMAGES[0], IMAGES[:2], IMAGES * 3, IMAGES * NAN, IMAGES.byte()),
    *cases("ranks", lambda values: metrics.rank_agreement(values, [1, 2, 3]), "values|scores", [], [1], [NAN, 1, 2],
           "x", None),
    # Shifts
    *cases("shift", farout.shift, "unknown shift", None, 3, "none", "", "blur"),
    *cases("fog", lambda given: farout.shift("fog", **given), "severity|unknown parameter",
           {}, {"severity": 0}, {"severity": 6}, {"severity": [3]}, {"severity": 3, "none": 1}),
    *cases("color_jitter", lambda given: farout.shift("color_jitter", **given), "hue|brightness",
           {"hue": NAN}, {"hue": 2}, {"hue": "x"}, {"brightness": -1}),
    *cases("seed", lambda seed: farout.shift("gaussian_noise", severity=1)(IMAGES, seed), "seed must be",
           None, "x", 2.5, NAN, []),
    *cases("indices", lambda rows: farout.shift("gaussian_noise", severity=1)(IMAGES, indices=rows), "indices", [0],
           []),
    # Attacks
    *cases("attack", lambda name: farout.attack(name, LENET, IMAGES, LABELS),
           "unknown attack|expected the name of an attack",
           "none", "", None, 3, Mine()),
    *cases("network", lambda network: farout.attack("fgsm", network, IMAGES, LABELS), "network|Network", None,
           "lenet", MODULE),
    *cases("images", lambda images: farout.attack("fgsm", LENET, images, LABELS), "images", None, 3, IMAGES[:0],
           IMAGES * 3),
    *cases("labels", lambda labels: farout.attack("fgsm", LENET, IMAGES, labels), "labels",
           None, LABELS[:2], LABELS + 4, LABELS - 1, LABELS + 0.5, ["a"] * 4, 3, [[0, 1, 2, 3]]),
    *cases("epsilon", lambda epsilon: farout.attack("fgsm", LENET, IMAGES, LABELS, epsilon=epsilon), "epsilon",
           -1, 10, NAN, "x", []),
    *cases("steps", lambda steps: farout.attack("pgd", LENET, IMAGES, LABELS, steps=steps), "steps", 0, -1, 2.5, "x",
           None),
    *cases("seed", lambda seed: farout.attack("pgd", LENET, IMAGES, LABELS, seed=seed), "seed must be", "x", None,
           2.5),
    *cases("no detector", lambda name: farout.attack(name, LENET, IMAGES, LABELS), "attacks a detector",
           "adaptive_pgd", "score_pgd"),
    # Searches
    *cases("steps", lambda steps: farout.worst_case(brightness, "affine", IMAGES, steps=steps), "steps must be",
           0, -1, 2.5, "x", None, NAN),
    *cases("method", lambda name: farout.worst_case(brightness, "affine", IMAGES, steps=2, method=name), "search",
           "none", 3, None, ""),
    *cases("variation", lambda name: farout.worst_case(brightness, name, IMAGES, steps=2), "variation",
           "none", 3, None, "", "latent", "slice", "composed"),
    *cases("base", lambda base: farout.worst_case(brightness, "affine", base, steps=2), "base|unknown data set|images",
           None, 3, "none", [], IMAGES[:0], IMAGES[0, 0]),
    *created(variations, "affine", "rotation|scale|unknown parameter",
             {"rotation": NAN}, {"rotation": "x"}, {"scale": (2, 1)}, {"scale": (0, 1)}, {"none": 1}),
    *created(variations, "color", "hue|brightness", {"hue": (1,)}, {"brightness": (-1, 1)}, {"hue": None}),
    *created(variations, "composed", "of must list", {"of": []}, {"of": ["none"]}, {"of": 3}),
    *created(variations, "attributes", "attribute to vary|vary must list", {"vary": ["none"]}, {"vary": []},
             {"vary": 3}),
    *created(search, "mh", "temperature|sigma|unknown parameter",
             {"temperature": 0}, {"temperature": NAN}, {"sigma": 0}, {"sigma": -1}, {"sigma": "x"}, {"none": 1}),
    # Detectors
    *cases("detector", detectors.create, "unknown detector", "none", None, 3, "", "MSP2"),
    *created(detectors, "ae", "width|latent|preset|training|epochs|unknown setting|no detector at|weights",
             {"width": 0}, {"width": "x"}, {"width": 2.5}, {"latent": -1}, {"latent": True}, {"preset": "none"},
             {"preset": 3}, {"training": 3}, {"training": {"none": 1}}, {"training": {"epochs": 0}},
             {"weights": "none.safetensors"}, {"weights": 3}),
    *created(detectors, "glow", "levels|depth|width", {"levels": 0}, {"depth": 0}, {"width": -1}, {"depth": NAN}),
    *created(detectors, "oe", "weight|ratio", {"weight": -1}, {"weight": NAN}, {"weight": "x"}, {"ratio": 0}),
    *created(detectors, "good", "quantile|epsilon|weight", {"quantile": 2}, {"epsilon": -1}, {"weight": -1},
             {"epsilon": "x"}),
    *created(detectors, "pixelcnn", "mixtures|blocks", {"mixtures": 0}, {"blocks": 0}, {"mixtures": "x"}),
    *created(detectors, "sngp", "bound|depth|random_features", {"bound": -1}, {"bound": "x"}, {"random_features": 0}),
    *created(detectors, "vit", "patch|depth|scoring", {"patch": 0}, {"depth": 0}, {"scoring": "none"}),
    *created(detectors, "nae", "data_steps|buffer|unknown setting", {"data_steps": -1}, {"buffer": 0},
             {"energy": {"none": 1}}),
    *created(detectors, "likelihood_regret", "updates|draws", {"updates": -1}, {"draws": 0}),
    *created(detectors, "atom", "scoring|mined|pool", {"scoring": "none"}, {"mined": -1}, {"pool": 0}),
    *created(detectors, "ssd", "clusters|known|width", {"clusters": 0}, {"known": -1}, {"width": 0}),
    *created(detectors, "csi", "views|width", {"views": 0}, {"width": 0}),
    *created(detectors, "acet", "steps|epsilon", {"steps": -1}, {"epsilon": -1}, {"epsilon": NAN}),
    *created(detectors, "knn", "k must|unknown parameter|search", {"k": 0}, {"k": "x"}, {"none": 1},
             {"search": "none"}),
    *cases("ae.fit", detectors.create("ae").fit, "expected a farout.ImageSet", None, "toy", 3, IMAGES),
    *cases("ae.fit val", lambda val: detectors.create("ae").fit(toy(), val=val), "val: expected", 3, "toy", IMAGES),
            # type: ignore[call-arg]
    *cases("ae.fit side", lambda side: detectors.create("ae").fit(toy(side=side)), "ae takes square images", 20, 8),
    *cases("no outliers", lambda name: detectors.create(name).fit(toy()), "learns from outliers and got none",
           "oe", "good", "atom", "rowl"),
    *cases("one class", lambda name: detectors.create(name).fit(ONE_CLASS, auxiliary_outliers=UNLABELED),
            # type: ignore[call-arg]
           "at least two classes", "oe", "good", "atom", "rowl"),
    *cases("unfitted", lambda name: detectors.create(name).score(IMAGES), "is not fitted", "ae", "glow", "oe"),
            # type: ignore[arg-type]
    # Generators
    *created(generators, "dcgan", "side|channels|width|dim|unknown parameter",
             {"side": 0}, {"side": "x"}, {"side": 2.5}, {"side": 32, "channels": 2}, {"side": 32, "width": 0},
             {"side": 32, "dim": 0}, {"side": 32, "dim": "x"}, {"side": 32, "none": 1}),
    *created(generators, "none", "unknown generator", {"side": 32}),
    *cases("dcgan.fit", lambda train: generators.create("dcgan", 32).fit(train), "expected a farout.ImageSet", None,
           "toy", IMAGES),
    *cases("objective", lambda given: generators.create("dcgan", 32).fit(toy(), **given),
           "objective|lambda_s|unknown setting", {"objective": "none"}, {"objective": "near"}, {"lambda_s": -1},
           {"none": 1}),
    *cases("sample", lambda n: generators.create("dcgan", 32).sample(n), "number of images", -1, "x", 2.5, None),
    # Whole studies
    *cases("stress", lambda detector: farout.stress(detector, "toy"), "expected a", None, 3, Mine, LENET, "msp"),
    *cases("inliers", lambda inliers: farout.stress(Mine(), inliers), "inliers|unknown data set", None, 3, "none",
           IMAGES[:0]),
    *cases("outliers", lambda outliers: farout.stress(Mine(), "toy", outliers), "outlier|unknown data set",
           3, [], ["none"], IMAGES[:0], [IMAGES[:0]], ["noise", "noise"]),
    *cases("budget", lambda budget: farout.stress(Mine(), "toy", budget=budget), "budget must be", "none", 3, None,
           ""),
    *cases("protocols", lambda names: farout.stress(Mine(), "toy", protocols=names), "protocol", "none", [], 3,
           ["none"], None),
    *cases("check", farout.check, "expected a farout.Detector", None, 3, int, object(), "msp"),
]  # fmt: skip


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Images that have passed a network."""
    seen: list[int] = []
    plain = Network.forward
    monkeypatch.setattr(
        Network, "forward", lambda self, images, **needs: (seen.append(len(images)), plain(self, images, **needs))[1]
    )
    return seen


@pytest.mark.parametrize(("call", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_wrong_argument_is_one_clear_error(
    passes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, TypeError, OSError, IndexError, farout.NotFitted), match=words) as raised:
        call()
    assert not isinstance(raised.value, AssertionError)
    assert passes == []
    assert not list(tmp_path.iterdir())
