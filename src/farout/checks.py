"""Checks of parameters that raise clear errors for values out of range."""

from __future__ import annotations

import math


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


def check_percent(what: str, value: float) -> None:
    """Raise unless the value is a percentage from 1 to 100 (not a fraction)."""
    if not isinstance(value, int | float) or not 1 <= value < 100:
        raise ValueError(f"{what} must lie between 1 and 100 percent, got {value!r}; use 90 instead of 0.9")
