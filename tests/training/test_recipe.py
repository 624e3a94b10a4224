"""Learning rates against their closed forms, batches, and the options `train` refuses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from farout.training import ramp
from farout.training.recipe import Recipe


def recipe(**changes: Any) -> Recipe:
    defaults = {"epochs": 4, "lr": 0.1, "batch": 128, "momentum": 0.9, "weight_decay": 5e-4}
    return Recipe(**defaults | {"schedule": "cosine", "augment": "none", "seed": 0} | changes)


def test_cosine_is_torchs_annealing() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    annealing = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40)
    for step in range(40):
        assert recipe().lr_at(step, 10) == pytest.approx(annealing.get_last_lr()[0], rel=1e-9)
        optimizer.step()
        annealing.step()


def test_cosine_at_its_landmarks() -> None:
    rates = [recipe().lr_at(step, 3) for step in (0, 4, 6, 8, 12)]
    assert rates == pytest.approx([0.1, 0.075, 0.05, 0.025, 0.0], abs=1e-15)


def test_step_divides_at_a_half_and_three_quarters() -> None:
    he = recipe(schedule="step")
    rates = [he.lr_at(step, 16_000) for step in (0, 31_999, 32_000, 47_999, 48_000, 63_999)]
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])


def test_milestones_multiply_after_epochs_or_steps() -> None:
    epochs = recipe(epochs=350, schedule="milestones", milestones=(150, 250), factor=0.2)
    rates = [epochs.lr_at(step, 10) for step in (0, 1499, 1500, 2499, 2500, 3499)]
    assert rates == pytest.approx([0.1, 0.1, 0.02, 0.02, 0.004, 0.004], rel=1e-12)
    steps = recipe(epochs=None, steps=100, schedule="milestones", milestones=[60])
    assert [steps.lr_at(step, 10) for step in (59, 60)] == pytest.approx([0.1, 0.01], rel=1e-12)


def test_constant_and_decay_per_step() -> None:
    assert {recipe(schedule="constant").lr_at(step, 10) for step in range(40)} == {0.1}
    pixelcnn = recipe(schedule="constant", lr=1e-4, decay=0.999995)
    assert pixelcnn.lr_at(100_000, 700) == pytest.approx(1e-4 * math.exp(100_000 * math.log(0.999995)), rel=1e-12)


def test_the_warm_up_rises_linearly_and_the_cosine_follows_it() -> None:
    vit = recipe(epochs=None, steps=10_000, lr=0.03, warmup_steps=500)
    rates = [vit.lr_at(step, 200) for step in (0, 250, 500, 500 + 9500 // 2, 9_999)]
    last = 0.015 * (1 + math.cos(math.pi * 9499 / 9500))
    assert rates == pytest.approx([0.0, 0.015, 0.03, 0.015, last], rel=1e-12)
    csi = recipe(epochs=1000, lr=1.0, warmup_epochs=10, warmup_from=0.1)
    assert [csi.lr_at(step, 20) for step in (0, 100, 200)] == pytest.approx([0.1, 0.55, 1.0], rel=1e-12)


def test_the_cosine_ends_at_the_final_rate() -> None:
    exposure = recipe(final_lr=1e-6)
    assert exposure.lr_at(40, 10) == pytest.approx(1e-6)
    assert exposure.lr_at(20, 10) == pytest.approx((0.1 + 1e-6) / 2)


@pytest.mark.parametrize(("at", "value"), [(0, 2.0), (60, 2.0), (210, 6.0), (360, 10.0), (400, 10.0)])
def test_a_ramp_is_linear_between_two_levels(at: float, value: float) -> None:
    assert ramp(at, 60, 360, 2, 10) == pytest.approx(value)
    assert ramp(at, at, at) == 1.0


def test_a_shortened_recipe_keeps_its_proportions() -> None:
    cut = recipe(epochs=350, schedule="milestones", milestones=(140, 245), warmup_epochs=35).shortened(10, 100)
    assert (cut.epochs, cut.milestones, cut.warmup_epochs) == (10, pytest.approx((4, 7)), pytest.approx(1))
    assert recipe(epochs=5).shortened(10, 100) == recipe(epochs=5)
    steps = recipe(epochs=None, steps=10_000, warmup_steps=500).shortened(10, 100)
    assert (steps.epochs, steps.steps, steps.warmup_steps) == (None, 1000, 50)


def test_augmentations_are_identified_by_their_settings_too() -> None:
    assert recipe(augment="none").augment == ()
    found = recipe(augment=["flip", "color_jitter"]).identity()["augment"]
    assert [one["name"] for one in found] == ["flip", "color_jitter"]
    assert found[1]["hue"] == 0.1


@pytest.mark.parametrize(("images", "batch"), [(50_000, 128), (150, 128), (5, 128), (129, 128)])
def test_batches_are_near_equal_and_within_the_limit(images: int, batch: int) -> None:
    sizes = [len(part) for part in torch.arange(images).tensor_split(recipe(batch=batch).steps_per_epoch(images))]
    assert sum(sizes) == images
    assert len(sizes) == math.ceil(images / batch)
    assert max(sizes) <= batch
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedule": "cosin"}, "unknown schedule 'cosin'. Did you mean 'cosine'"),
        ({"augment": "flp"}, "unknown augment 'flp'. Did you mean 'flip'?"),
        ({"epochs": 0}, "got epochs=0"),
        ({"batch": 1}, "batch=1"),
        ({"lr": 0.0}, "got lr=0.0"),
        ({"lr": math.nan}, "got lr=nan"),
        ({"momentum": 1.0}, "momentum=1.0"),
        ({"weight_decay": -1.0}, "weight_decay=-1.0"),
        ({"steps": 3}, "expected epochs or steps, one of them, got epochs=4 and steps=3"),
        ({"epochs": None}, "got epochs=None and steps=None"),
        ({"milestones": (3,)}, 'expected milestones with the schedule "milestones", and with no other'),
        ({"schedule": "milestones"}, "got schedule=milestones and milestones=()"),
        ({"schedule": "milestones", "milestones": (3, 2)}, "ascending"),
        ({"warmup_steps": 3, "warmup_epochs": 1}, "warmup_steps or warmup_epochs, not both"),
        ({"optimizer": "adm"}, "unknown optimizer 'adm'. Did you mean 'adam'?"),
        ({"betas": (0.9,)}, "two betas"),
        ({"ema": 1.0}, "got ema=1.0"),
        ({"threads": 0}, "got threads=0"),
    ],
)
def test_wrong_options_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        recipe(**changes)
    assert message in str(error.value)


def test_an_unknown_setting_is_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"unknown setting of a training: 'wait_decay'\. Did you mean 'weight_decay'"):
        Recipe.of(epochs=1, wait_decay=0.0)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("epochs", 1.5, "a whole number"),
        ("epochs", True, "a whole number"),
        ("epochs", "three", "a whole number"),
        ("batch", 8.5, "a whole number"),
        ("seed", "x", "a whole number"),
        ("lr", "fast", "a number"),
        ("clip", "x", "a number"),
        ("weight_decay", None, "a number"),
        ("nesterov", "maybe", "true or false"),
        ("drop_last", 1, "true or false"),
        ("milestones", 5, "a list of numbers"),
        ("milestones", ["x"], "a list of numbers"),
        ("betas", 0.9, "two numbers"),
        ("augment", 3, "a name or a list of names"),
    ],
)
def test_a_setting_of_another_kind_is_refused(field: str, value: object, expected: str) -> None:
    with pytest.raises(ValueError, match=f"expected {expected} for {field}, got {field}="):
        Recipe(**{"epochs": 1, field: value})


def test_numbers_of_numpy_and_whole_rates_are_taken() -> None:
    taken = Recipe(epochs=np.int64(2), lr=1, clip=np.float32(0.5))
    assert (taken.total_steps(3), taken.lr, taken.clip) == (6, 1, 0.5)
