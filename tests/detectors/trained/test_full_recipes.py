"""Recipes of the full presets: optimizer, schedule and batch of every paper."""

from __future__ import annotations

from typing import Any

import pytest

import farout
from farout.detectors import TrainedDetector, names_of

ADAM = {"optimizer": "adam", "lr": 1e-4, "weight_decay": 0.0, "schedule": "constant"}
GLOW = {**ADAM, "epochs": 500, "batch": 64, "clip": 0.1, "augment": ()}
PIXELS = {**ADAM, "epochs": 200, "batch": 64, "decay": 0.999995, "augment": ("flip",)}
XL = {
    "optimizer": "adam", "lr": 7.8e-4, "batch": 128, "weight_decay": 0.005 / 128, "schedule": "milestones",
    "milestones": (30, 100), "factor": 0.2, "augment": ("crop_flip", "autoaugment_cifar"),
}  # fmt: skip
DENSE = {
    "optimizer": "sgd", "lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-4, "epochs": 100,
    "schedule": "milestones", "milestones": (50, 75, 90), "factor": 0.1, "augment": ("crop_flip",),
}  # fmt: skip
RECIPES: dict[str, dict[str, Any]] = {
    "ae": {**ADAM, "epochs": 500, "batch": 128, "augment": ()},
    "nae": {**ADAM, "epochs": 180, "batch": 128, "clip": 0.1, "augment": ("flip",)},
    "glow": GLOW,
    "pixelcnn": PIXELS,
    "likelihood_ratio": PIXELS,
    "input_complexity": PIXELS,
    "likelihood_regret": {**ADAM, "lr": 3e-4, "epochs": 200, "batch": 64, "augment": ()},
    "oe": {
        "optimizer": "sgd", "lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 5e-4, "epochs": 100,
        "batch": 128, "schedule": "cosine", "final_lr": 1e-6, "augment": ("crop_flip",),
    },
    "ceda": {**XL, "epochs": 420},
    "acet": {**XL, "epochs": 200},
    "good": {**XL, "epochs": 420},
    "atom": {**DENSE, "batch": 64},
    "rowl": {**DENSE, "batch": 128},
    "sngp": {
        "optimizer": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 5e-4, "epochs": 200, "batch": 128,
        "schedule": "milestones", "milestones": (60, 120, 160), "factor": 0.2, "augment": ("crop_flip",),
    },
    "ssd": {
        "optimizer": "sgd", "lr": 0.5, "momentum": 0.9, "nesterov": False, "weight_decay": 1e-4, "epochs": 500,
        "batch": 512, "schedule": "cosine", "augment": (),
    },
    "csi": {
        "optimizer": "lars", "lr": 1.0, "momentum": 0.9, "trust": 0.001, "exclude_1d": False, "weight_decay": 1e-6,
        "epochs": 1000, "schedule": "cosine", "warmup_epochs": 10, "warmup_from": 0.1, "augment": (),
    },
    "vit": {
        "optimizer": "sgd", "momentum": 0.9, "schedule": "cosine", "batch": 512, "clip": 1.0, "steps": 10_000,
        "lr": 0.03, "warmup_steps": 500, "weight_decay": 0.0,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", names_of(TrainedDetector))
def test_the_full_recipe_is_that_of_the_paper(name: str) -> None:
    detector = farout.detectors.create(name, preset="full")
    assert isinstance(detector, TrainedDetector)
    recipe, expected = detector.recipe(), RECIPES[name]
    assert {key: getattr(recipe, key) for key in expected} == expected
    others = {"accumulate": 1, "clip": None, "decay": 1.0, "ema": None, "label_smoothing": 0.0, "autocast": "none"}
    assert {key: getattr(recipe, key) for key in others} == others | {
        key: expected[key] for key in others.keys() & expected.keys()
    }


PARAMS: dict[str, dict[str, Any]] = {
    "ae": {"width": 128, "latent": 128},
    "nae": {"width": 128, "latent": 32, "latent_steps": 20, "data_steps": 40, "buffer": 10_000},
    "likelihood_ratio": {"density": "pixelcnn", "mutation": 0.1, "penalty": 0.0},
    "likelihood_regret": {"width": 32, "latent": 100, "updates": 100},
    "vit": {"side": 224, "patch": 16, "width": 768, "depth": 12, "scoring": "mds"},
    "oe": {"width": 96, "ratio": 2, "weight": 0.5},
    "acet": {"steps": 40, "epsilon": None},
    "good": {"quantile": 0.8, "epsilon": 0.01, "weight": 1.0},
    "atom": {"epsilon": 8 / 255, "steps": 5, "pool": 400_000, "mined": 0.25, "quantile": 0.125, "ratio": 2},
    "rowl": {"epsilon": 8 / 255, "steps": 5, "count": 5_000, "fixed": True},
    "sngp": {"bound": 3.0, "mean_field_factor": 25.0, "reduced": 128, "random_features": 1024, "dropout": 0.3},
    "ssd": {"encoder": "resnet50", "clusters": 1},
    "csi": {"views": 10, "width": 64},
    "glow": {"levels": 3, "depth": 32, "width": 512},
    "pixelcnn": {"blocks": 5, "width": 80, "mixtures": 10},
}


@pytest.mark.parametrize("name", PARAMS)
def test_the_full_parameters_are_those_of_the_paper(name: str) -> None:
    detector = farout.detectors.create(name, preset="full")
    assert {key: getattr(detector, key) for key in PARAMS[name]} == PARAMS[name]
