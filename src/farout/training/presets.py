"""Presets: the training recipes of papers by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from farout.registry import unknown

_SGD = {"optimizer": "sgd", "momentum": 0.9, "nesterov": False}
PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "raised_bar_mnist": {
            **_SGD, "epochs": 100, "batch": 256, "lr": 0.1, "weight_decay": 0.0,
            "schedule": "milestones", "milestones": (40, 60), "augment": "none",
        },
        "raised_bar_cifar": {
            **_SGD, "epochs": 350, "batch": 128, "lr": 0.1, "weight_decay": 5e-4,
            "schedule": "milestones", "milestones": (150, 250), "augment": "crop_flip",
        },
        "raised_bar_vit": {
            **_SGD, "steps": 10_000, "batch": 256, "lr": 0.03, "weight_decay": 0.0,
            "schedule": "cosine", "warmup_steps": 500, "augment": "crop_flip",
        },
    }
)  # fmt: skip
"""Settings of a `Recipe`: those of Mukhoti et al. 2022, appendix A.1. No weight decay where the paper names none."""
_WARMUP = ("warmup_steps", "warmup_epochs")


def apply_preset(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a recipe with those of its `preset` filled in; settings beside the preset replace its own.

    With other epochs or steps, milestones and the warm-up keep their fraction of the training. Another schedule drops
    the milestones.
    """
    own = dict(settings)
    name = own.pop("preset", None)
    if name is None:
        return own
    if not isinstance(name, str) or name not in PRESETS:
        raise unknown("preset of a training:", name, PRESETS)
    preset = dict(PRESETS[name])
    for unit in ("epochs", "steps"):
        if isinstance(own.get(unit), int):
            preset = _resized(preset, unit, own[unit])
    if "schedule" in own:
        preset.pop("milestones", None)
    if any(key in own for key in _WARMUP):
        preset = {key: value for key, value in preset.items() if key not in _WARMUP}
    return preset | own


def _resized(preset: dict[str, Any], unit: str, length: int) -> dict[str, Any]:
    """Return the settings of a training of another length, in epochs or steps."""
    resized = dict(preset)
    before = resized.pop("epochs", None) or resized.pop("steps")
    if "milestones" in resized:
        resized["milestones"] = tuple(milestone * length / before for milestone in resized["milestones"])
    if warmup := resized.pop("warmup_steps", 0) * length / before:
        resized[f"warmup_{unit}"] = round(warmup) if unit == "steps" else warmup
    return resized | {unit: length}
