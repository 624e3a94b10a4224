"""One landscape of scores (left panel of Fig. 2): what is planned for it, and what is shown of it."""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import farout
from farout.networks import create, save_weights
from farout.protocols import Evg, plan
from farout.report.content import Landscapes
from farout.study.cells.search import FOUND, SearchCell
from farout.study.spec import StudySpec
from farout.study.store import array_file, score_table
from farout.study.study import Study, from_spec
from helpers.evg_runs import Written
from helpers.written_runs import Subject

A, B = ("net", "0", "a"), ("net", "0", "b")
INLIERS = np.arange(10.0)
STD = sqrt(8.25)
PLANE = {"name": "slice", "of": "affine", "free": ["rotation", "scale"]}


@pytest.fixture
def study(tmp_path: Path) -> Study:
    weights = tmp_path / "lenet.safetensors"
    save_weights(create("lenet", 4, 32, seed=3), weights)
    outliers = [{"name": "toy", "split": "test/ood_cls", "limit": 30}, {"name": "noise", "limit": 40}]
    evg = {"variations": ["color"], "methods": ["mh", "coordinate"], "steps": 7, "transfer": False, "landscape": PLANE}
    spec = {
        "name": "small",
        "inliers": {s: {"name": "toy", "split": s, "limit": 90} for s in ("train", "val", "test")},
        "outliers": outliers,
        "networks": [{"name": "lenet", "weights": str(weights), "mean": [0.5], "std": [0.25]}],
        "detectors": ["msp", "mls"],
        "protocols": [{"name": "evg", **evg, "control": False}],
        "budget": "quick",
    }
    return from_spec(StudySpec.model_validate(spec))


def test_the_first_outlier_is_searched_by_every_method_and_drawn_over_the_plane(study: Study) -> None:
    entries = [entry for entry in plan(study) if entry.tags["role"].startswith("landscape")]
    assert [(entry.tags["detector"], entry.tags["role"]) for entry in entries] == [
        (detector, role)
        for detector in ("msp", "mls")
        for role in ("landscape", "landscape:mh", "landscape:coordinate")
    ]
    first = farout.load("toy", "test/ood_cls", limit=30).batch([0])
    for entry, (chains, steps) in zip(entries, 2 * [(4096, 0), (16, 7), (16, 7)], strict=True):
        cell = entry.cell
        assert isinstance(cell, SearchCell)
        assert (cell.chains, cell.steps, cell.variation.coordinates) == (chains, steps, ("rotation", "scale"))
        images = cell.images.preview()  # type: ignore[union-attr]
        assert len(images) == chains
        assert torch.equal(images.batch([0, chains - 1]), first.expand(2, -1, -1, -1))


def test_without_one_nothing_is_planned(study: Study) -> None:
    study.protocols[0].params.pop("landscape")
    assert not [entry for entry in plan(study) if entry.tags["role"].startswith("landscape")]


@pytest.mark.parametrize("wrong", ["affine", {"name": "slice", "of": "affine", "free": ["scale"]}])
def test_a_landscape_has_two_coordinates(wrong: Any) -> None:
    with pytest.raises(
        ValueError, match=r"two coordinates in a cube, got .* with [15]: select two, as in \{name: slice"
    ):
        Evg(landscape=wrong)


def searched(run: Written, who: Subject, role: str, scores: Any, places: Any) -> None:
    tags = {"outliers": "odd", "variation": "rotation and scale", "axes": "rotation\nscale"}
    cell = run._planned(who, role, tags)
    files = {
        "scores.parquet": score_table({"score": np.asarray(scores, np.float64)}),
        FOUND: array_file({"latents": np.asarray(places, np.float32)}),
    }
    run.store.write(cell, {"chains": len(scores), "queries": 1}, files)


def test_what_is_shown_is_what_is_stored(tmp_path: Path) -> None:
    run, points = Written(tmp_path), np.random.default_rng(0).random((50, 2)).astype(np.float32)
    values = np.linspace(1, 9, 50)
    for who in (A, B):
        run.scored(who, "inliers", INLIERS).scored(who, "outliers", [9.5] * 5, outliers="odd")
    searched(run, A, "landscape", values, points)
    searched(run, A, "landscape:mh", [0.5, 0.5, 0.51, 3], [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6], [0.7, 0.8]])
    searched(run, A, "landscape:coordinate", [2.0, 4.0], [[0.9, 0.9], [0.8, 0.8]])
    searched(run, B, "landscape:mh", [1.0], [[0.5, 0.5]])  # whose landscape is not there yet
    (figure,) = [figure for figure in Evg().summarize(run.results()).figures if isinstance(figure, Landscapes)]
    assert list(figure.panels) == ["a · mh (3 of 4)", "a · coordinate (0 of 2)"]
    assert figure.labels == ("rotation", "scale")
    for surface in figure.panels.values():
        np.testing.assert_array_equal(surface.points, points)
        np.testing.assert_allclose(surface.values, (values - 4.5) / STD)
    np.testing.assert_allclose(figure.panels["a · coordinate (0 of 2)"].ends, [[0.9, 0.9], [0.8, 0.8]], rtol=1e-6)


def test_a_run_without_a_landscape_shows_none(tmp_path: Path) -> None:
    run = Written(tmp_path).scored(A, "inliers", INLIERS).scored(A, "outliers", [9.5] * 5, outliers="odd")
    run.searched(A, "odd", "color", "mh", [4.5, 2.5])
    assert not [figure for figure in Evg().summarize(run.results()).figures if isinstance(figure, Landscapes)]
