"""Detectors that look at other images, in a study: what they cost, what is kept, what happens when they fail."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

import farout
from farout import Activations, PostHoc, detectors
from farout.core import PER_BLOCK
from farout.study.cells.fit import FitCell
from farout.study.engines import scheduler
from farout.study.results import Results
from farout.study.sources.images import LiveImages
from farout.study.sources.networks import NetworkSource
from farout.study.spec import StudySpec
from farout.study.store import Store
from helpers.written_runs import lenet_weights

ODINS = ["msp", "odin", {"name": "odin", "epsilon": 0.05}]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(lenet_weights(tmp_path_factory.mktemp("weights")))


def spec(weights: str, members: list[Any]) -> StudySpec:
    return StudySpec.model_validate(
        {
            "name": "perturbing",
            "inliers": {split: {"name": "toy", "split": split, "limit": 150} for split in ("train", "val", "test")},
            "outliers": [{"name": "noise", "limit": 70}],
            "networks": [{"name": "lenet", "weights": weights, "mean": [0.5], "std": [0.25]}],
            "detectors": members,
        }
    )


@pytest.fixture
def forwards(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the images that pass through any network."""
    seen: list[int] = []
    original = farout.Network.forward

    def forward(self: farout.Network, images: Any, **options: Any) -> Any:
        seen.append(len(images))
        return original(self, images, **options)

    monkeypatch.setattr(farout.Network, "forward", forward)
    return seen


def scores(root: Path) -> dict[tuple[str, str], Any]:
    results = Results(root)
    return {(row.tags["detector"], row.tags["outliers"]): results.scores(row) for row in results.done("clean")}


def panel(weights: str, members: list[str]) -> farout.Panel:
    network = farout.networks.create("lenet", 4, 32, mean=0.5, std=0.25)
    farout.networks.load_weights(network, weights)
    return farout.Panel(network, members)


def test_all_detectors_score_in_a_study_as_in_a_panel(weights: str, tmp_path: Path) -> None:
    farout.run(spec(weights, detectors.names_of(farout.PostHoc)), tmp_path)
    found = scores(tmp_path)
    train, val = (farout.load("toy", split, limit=150) for split in ("train", "val"))
    fitted = panel(weights, detectors.names_of(farout.PostHoc)).fit(train, val)
    for outliers, images in {"": farout.load("toy", limit=150), "noise": farout.load("noise", limit=70)}.items():
        for detector, expected in fitted.score(images).items():
            np.testing.assert_array_equal(found[detector, outliers], expected, err_msg=detector)


def test_the_validation_scores_are_kept(weights: str, tmp_path: Path) -> None:
    farout.run(spec(weights, ["odin"]), tmp_path)
    expected = panel(weights, ["odin"]).score(farout.load("toy", "val", limit=150))["odin"]
    found = [values for path in tmp_path.glob("cells/*/state.safetensors") for values in _arrays(path).values()]
    assert len(found) == 1
    np.testing.assert_array_equal(found[0], expected)


def _arrays(path: Path) -> dict[str, Any]:
    from safetensors.numpy import load_file

    return dict(load_file(path))


def test_each_costs_two_passes_more_and_the_others_share_one(weights: str, tmp_path: Path, forwards: list[int]) -> None:
    farout.run(spec(weights, ["msp", "ash", "gradnorm", "vim"]), tmp_path / "shared")
    shared = sum(forwards)
    assert shared == 2 + 150 * 3 + 70  # two of noise: can ash and vim read the network?
    forwards.clear()
    farout.run(spec(weights, [*ODINS, "ash", "gradnorm", "vim"]), tmp_path / "both")
    assert sum(forwards) == shared + 2 * 2 * (150 + 150 + 70)


def test_alone_it_needs_no_shared_pass_to_score(weights: str, tmp_path: Path, forwards: list[int]) -> None:
    farout.run(spec(weights, ["odin"]), tmp_path)
    assert sum(forwards) == 150 + 2 * (150 + 150 + 70)  # the validation images once more, for the network's accuracy


def test_an_interrupted_run_computes_nothing_twice(
    weights: str, tmp_path: Path, forwards: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "FLUSH_SECONDS", 0.0)
    farout.run(spec(weights, ODINS), tmp_path / "whole")
    whole, count, original = sum(forwards), 0, scheduler._Active.take

    def take(self: Any, number: str, results: Any) -> None:
        nonlocal count
        original(self, number, results)
        count += 1
        if count in (2, 3, 5):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(scheduler._Active, "take", take)
    forwards.clear()
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            farout.run(spec(weights, ODINS), tmp_path / "parts")
    farout.run(spec(weights, ODINS), tmp_path / "parts")
    assert sum(forwards) == whole
    a, b = scores(tmp_path / "whole"), scores(tmp_path / "parts")
    assert a.keys() == b.keys()
    assert all(np.array_equal(a[key], b[key]) for key in a)


def test_kept_chunks_of_others_do_not_serve_one_that_joins(
    weights: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "FLUSH_SECONDS", 0.0)
    original = scheduler._Active.take

    def interrupted(self: Any, name: str, results: Any) -> None:
        original(self, name, results)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(scheduler._Active, "take", interrupted)
        with pytest.raises(KeyboardInterrupt):
            farout.run(spec(weights, ["msp"]), tmp_path)
    assert not farout.run(spec(weights, ODINS), tmp_path).outcome.failed
    assert {detector for detector, _ in scores(tmp_path)} == {"msp", "odin", "odin(epsilon=0.05)"}


def test_one_that_fails_to_look_leaves_the_others_be_and_is_tried_again(
    weights: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(self: Any, network: Any, images: Any) -> Any:
        raise ArithmeticError("no gradient")

    with monkeypatch.context() as patch:
        patch.setattr(detectors.ODIN, "perturbed_pass", look)
        outcome = farout.run(spec(weights, ["msp", "odin"]), tmp_path).outcome
    assert any(why.startswith("odin on lenet: ArithmeticError: no gradient") for why in outcome.failed.values())
    assert {detector for detector, _ in scores(tmp_path)} == {"msp"}
    assert not farout.run(spec(weights, ["msp", "odin"]), tmp_path).outcome.failed
    assert {detector for detector, _ in scores(tmp_path)} == {"msp", "odin"}


def test_workers_give_the_same_scores(weights: str, tmp_path: Path) -> None:
    for name, workers in (("here", 0), ("there", 2)):
        farout.run(spec(weights, ODINS), tmp_path / name, workers=workers)
    here, there = scores(tmp_path / "here"), scores(tmp_path / "there")
    assert here.keys() == there.keys()
    assert all(np.array_equal(here[key], there[key]) for key in here)


def test_a_panel_with_odin_can_be_stressed(weights: str) -> None:
    both = panel(weights, ["msp", "odin"])
    table = farout.stress(both, farout.load("toy", limit=60), farout.load("noise", limit=60), protocols="clean").table()
    assert set(table["detector"]) == {"msp", "odin"}


@dataclass(kw_only=True)
class Everything(PostHoc):
    """Needs all that there is."""

    needs: ClassVar[frozenset[str]] = frozenset({"logits", "features", "head", "members", *PER_BLOCK})

    def score(self, activations: Activations) -> Tensor:
        return activations.logits.double().amax(1)


@dataclass(frozen=True)
class Held(NetworkSource):
    """A network that is there already."""

    network: farout.Network
    label: str = "held"

    def identity(self) -> Any:
        return self.network.digest

    def preview(self) -> farout.Network:
        return self.network

    def build(self, store: Store) -> farout.Network:
        return self.network


def without_blocks(seed: int) -> farout.Network:
    return farout.Network(farout.networks.create("lenet", 4, 32, seed=seed), mean=0.5, std=0.5, blocks=())


@pytest.mark.parametrize("joined", [False, True], ids=["one", "ensemble"])
@pytest.mark.parametrize("blocks", [True, False], ids=["blocks", "features alone"])
def test_a_kept_chunk_serves_if_and_only_if_it_has_all_columns(joined: bool, blocks: bool, tmp_path: Path) -> None:
    members = [
        farout.networks.create("lenet", 4, 32, seed=seed) if blocks else without_blocks(seed) for seed in range(2)
    ]
    network = farout.networks.Ensemble(members) if joined else members[0]
    val = LiveImages(farout.load("toy", "val", limit=10))
    cells = [FitCell(Held(network), detector, None, val) for detector in (Everything(), detectors.ODIN())]
    work = cells[0].work(cells)
    job, (chunk,) = work.prepare(Store(tmp_path), torch.device("cpu")), work.chunks
    kept = job.run(chunk, lambda images: None)
    assert job.complete(chunk, kept)
    assert len(kept) == 3 + joined + (3 + blocks) * len(network.statistics_names)
    for name in kept:
        assert not job.complete(chunk, {other: rows for other, rows in kept.items() if other != name}), name
