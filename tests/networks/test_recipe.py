"""Learning rates against their closed forms, batches, and the options `train` refuses."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from farout.networks.recipe import Recipe


def recipe(**changes: Any) -> Recipe:
    defaults = {"epochs": 4, "lr": 0.1, "batch": 128, "momentum": 0.9, "weight_decay": 5e-4}
    return Recipe(**defaults | {"schedule": "cosine", "augment": "none", "seed": 0} | changes)


def test_cosine_is_torchs_annealing() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    annealing = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40)
    for step in range(40):
        assert recipe().lr_at(step, 40) == pytest.approx(annealing.get_last_lr()[0], rel=1e-9)
        optimizer.step()
        annealing.step()


def test_cosine_at_its_landmarks() -> None:
    rates = [recipe().lr_at(step, 12) for step in (0, 4, 6, 8, 12)]
    assert rates == pytest.approx([0.1, 0.075, 0.05, 0.025, 0.0], abs=1e-15)


def test_step_divides_at_a_half_and_three_quarters() -> None:
    he = recipe(schedule="step")
    rates = [he.lr_at(step, 64_000) for step in (0, 31_999, 32_000, 47_999, 48_000, 63_999)]
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])


@pytest.mark.parametrize(("images", "batch"), [(50_000, 128), (150, 128), (5, 128), (129, 128)])
def test_batches_are_near_equal_and_within_the_limit(images: int, batch: int) -> None:
    sizes = [len(part) for part in torch.arange(images).tensor_split(recipe(batch=batch).steps(images))]
    assert sum(sizes) == images
    assert len(sizes) == math.ceil(images / batch)
    assert max(sizes) <= batch
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedule": "cosin"}, "unknown schedule 'cosin'. Did you mean 'cosine'"),
        ({"augment": "flip"}, "unknown augment 'flip'"),
        ({"epochs": 0}, "got epochs=0"),
        ({"batch": 1}, "batch=1"),
        ({"lr": 0.0}, "got lr=0.0"),
        ({"lr": math.nan}, "got lr=nan"),
        ({"momentum": 1.0}, "momentum=1.0"),
        ({"weight_decay": -1.0}, "weight_decay=-1.0"),
    ],
)
def test_wrong_options_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        recipe(**changes)
    assert message in str(error.value)
