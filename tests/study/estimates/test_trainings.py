"""Trials of trainings: steps of the real loop for networks, generators and detectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from farout.protocols import plan
from farout.study.cells.cell import Work, closure
from farout.study.cells.fit_detector import DetectorFitWork
from farout.study.cells.train import TrainWork
from farout.study.engines.run import group_works
from farout.study.estimates import trainings
from farout.study.estimates.demands import Demand, demands
from farout.study.spec import StudySpec
from farout.study.study import from_spec
from farout.training.recipe import Recipe

CPU = torch.device("cpu")
GENERATOR = {"name": "dcgan", "width": 4, "dim": 8, "train": {"steps": 6, "batch": 8}}


@pytest.fixture(scope="module")
def works() -> list[Work]:
    content: dict[str, Any] = {
        "name": "trainings",
        "inliers": {"train": {"name": "toy", "split": "train", "limit": 100}, "test": {"name": "toy", "limit": 40}},
        "outliers": [{"name": "noise", "limit": 30}],
        "networks": [{"name": "lenet", "train": {"epochs": 2, "batch": 20}}],
        "detectors": [{"name": "ae", "training": {"epochs": 3, "batch": 10}}, "nae", "msp"],
        "protocols": ["clean", {"name": "evg", "variations": [{"name": "latent", "generator": GENERATOR}]}],
        "budget": "quick",
    }
    return group_works(closure([entry.cell for entry in plan(from_spec(StudySpec.model_validate(content)))]))


def training_demands(works: Sequence[Work], title: str) -> list[Demand]:
    return [
        demand
        for work in works
        if isinstance(work, TrainWork | DetectorFitWork) and title in work.cells[0].title
        for demand in demands(work)
        if demand.part.kind == "training"
    ]


@pytest.mark.parametrize(
    ("title", "images", "batch"), [("train lenet", 184, 20), ("train latent", 48, 8), ("fit ae (", 276, 10)]
)
def test_a_trial_takes_two_steps_of_the_recipe(
    works: list[Work], title: str, images: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (demand,) = training_demands(works, title)
    assert demand.units == images
    seen: list[Recipe] = []
    fit = trainings.fit

    def counted(task: Any, images: Any, recipe: Recipe, **more: Any) -> Any:
        seen.append(recipe)
        return fit(task, images, recipe, **more)

    monkeypatch.setattr(trainings, "fit", counted)
    assert demand.part.trial is not None
    trial = demand.part.trial(CPU, 0)
    trial.call()
    assert trial.units == 2 * batch
    assert [(one.steps, one.batch) for one in seen] == [(2, batch)]
    assert trial.held > 1000


def test_a_training_whose_stages_have_lengths_of_their_own_counts_by_its_rough_rate(works: list[Work]) -> None:
    (demand,) = training_demands(works, "fit nae")
    assert demand.part.trial is not None
    with pytest.raises(ValueError, match="lengths of their own"):
        demand.part.trial(CPU, 0)
