"""Checks of parameters that raise clear errors for values out of range."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

LEAST_COUNTS = {
    "blocks": 1, "buffer": 1, "clusters": 1, "count": 1, "depth": 1, "draws": 1, "factor": 1, "latent": 1, "layers": 1,
    "levels": 1, "mixtures": 1, "patch": 1, "pool": 1, "random_features": 1, "ratio": 1, "reduced": 1, "style": 1,
    "views": 1, "width": 1, "dim": 0, "shared": 0, "data_steps": 0, "known": 0, "latent_steps": 0, "steps": 0,
    "updates": 0,
}  # fmt: skip
"""Smallest values of settings of models that are whole numbers, by name."""
LEAST_NUMBERS = {
    "bound": 0, "dropout": 0, "epsilon": 0, "mean_field_factor": 0, "mined": 0, "mutation": 0, "penalty": 0,
    "quantile": 0, "step_size": 0, "weight": 0,
}  # fmt: skip
"""Smallest values of settings of models that are real numbers, by name."""

FLAGS = ("fixed", "mean_twice", "published_range", "supervised")
"""Settings of models that are true or false."""


def check_choice(what: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise unless the value is one of `choices`."""
    if value not in choices:
        raise ValueError(f"{what} must be one of {', '.join(choices)}, got {value!r}")


def check_positive(what: str, value: float) -> None:
    """Raise unless the value is positive and finite."""
    if not 0 < value < math.inf:
        raise ValueError(f"{what} must be positive and finite, got {value}")


def check_count(what: str, value: object, least: int = 1) -> None:
    """Raise unless the value is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{what} must be a whole number of at least {least}, got {value!r}")


def check_sizes(model: str, params: Mapping[str, Any]) -> None:
    """Raise for a setting of a model that is below its smallest value, no number, or neither true nor false."""
    for name, value in params.items():
        if value is None:
            continue
        if name in LEAST_COUNTS:
            check_count(f"{model}: {name}", value, LEAST_COUNTS[name])
        if name in LEAST_NUMBERS:
            check_number(f"{model}: {name}", value, LEAST_NUMBERS[name])
        if name in FLAGS and not isinstance(value, bool):
            raise ValueError(f"{model}: {name} must be true or false, got {value!r}")


def check_number(what: str, value: object, least: float) -> None:
    """Raise unless the value is a finite number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < math.inf:
        raise ValueError(f"{what} must be a finite number of at least {least}, got {value!r}")


def check_percent(what: str, value: float) -> None:
    """Raise unless the value is a percentage from 1 to 100 (not a fraction)."""
    if not isinstance(value, int | float) or not 1 <= value < 100:
        raise ValueError(f"{what} must lie between 1 and 100 percent, got {value!r}; use 90 instead of 0.9")
