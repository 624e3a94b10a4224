"""Presets: the recipes of the papers, and settings that replace some of theirs."""

from __future__ import annotations

from typing import Any

import pytest

from farout.training import Recipe
from farout.training.presets import PRESETS


def rates(recipe: Recipe, epochs: list[int], per_epoch: int = 3) -> list[float]:
    """Learning rates of the first step of these epochs."""
    return [recipe.lr_at(epoch * per_epoch, per_epoch) for epoch in epochs]


def test_the_recipe_of_mnist() -> None:
    recipe = Recipe.of(preset="raised_bar_mnist")
    assert (recipe.epochs, recipe.batch, recipe.momentum, recipe.nesterov, recipe.augment) == (100, 256, 0.9, False, ())
    assert rates(recipe, [0, 39, 40, 59, 60, 99]) == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])


def test_the_recipe_of_cifar() -> None:
    recipe = Recipe.of(preset="raised_bar_cifar")
    assert (recipe.epochs, recipe.batch, recipe.weight_decay, recipe.augment) == (350, 128, 5e-4, ("crop_flip",))
    assert rates(recipe, [149, 150, 249, 250]) == pytest.approx([0.1, 0.01, 0.01, 0.001])


def test_the_recipe_of_transformers() -> None:
    recipe = Recipe.of(preset="raised_bar_vit")
    assert (recipe.steps, recipe.epochs, recipe.batch, recipe.optimizer) == (10_000, None, 256, "sgd")
    found = [recipe.lr_at(step, 200) for step in (0, 250, 500, 5250, 10_000)]
    assert found == pytest.approx([0, 0.015, 0.03, 0.015, 0])


@pytest.mark.parametrize("name", PRESETS)
def test_other_settings_stay_those_of_the_preset(name: str) -> None:
    assert Recipe.of(preset=name, lr=0.02, seed=4) == Recipe.of(**PRESETS[name] | {"lr": 0.02, "seed": 4})


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("raised_bar_mnist", {"epochs": 10}, {"epochs": 10, "steps": None, "milestones": (4, 6)}),
        ("raised_bar_mnist", {"epochs": 55}, {"milestones": (22, 33)}),
        ("raised_bar_mnist", {"steps": 1000}, {"epochs": None, "steps": 1000, "milestones": (400, 600)}),
        ("raised_bar_mnist", {"epochs": 10, "milestones": [9]}, {"milestones": (9,)}),
        ("raised_bar_mnist", {"schedule": "cosine"}, {"epochs": 100, "milestones": ()}),
        ("raised_bar_vit", {"steps": 100}, {"steps": 100, "warmup_steps": 5}),
        ("raised_bar_vit", {"epochs": 4}, {"epochs": 4, "steps": None, "warmup_steps": 0, "warmup_epochs": 0.2}),
        ("raised_bar_vit", {"warmup_epochs": 1}, {"warmup_steps": 0, "warmup_epochs": 1}),
    ],
)
def test_a_training_of_another_length_keeps_its_proportions(name: str, changes: Any, expected: Any) -> None:
    recipe = Recipe.of(preset=name, **changes)
    for key, value in expected.items():
        assert getattr(recipe, key) == value, key


@pytest.mark.parametrize("name", ["raised_bar_minst", 3, ["raised_bar_mnist"]])
def test_an_unknown_preset_is_answered_with_the_known_ones(name: Any) -> None:
    with pytest.raises(ValueError, match=r"unknown preset of a training: .*Known: raised_bar_cifar, raised_bar_mnist"):
        Recipe.of(preset=name)
