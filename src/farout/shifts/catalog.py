"""Registry of the shifts."""

from __future__ import annotations

from typing import Any, TypeVar

from farout import aliases
from farout.core import Shift
from farout.registry import Registry

catalog: Registry[Shift] = Registry("shift", aliases.SHIFTS)

S = TypeVar("S", bound=type[Shift])


def register(cls: S) -> S:
    """Register a shift class under its `name`, for studies and the command line."""
    catalog.register(cls.name)(cls)
    return cls


def shift(name: str, /, **settings: Any) -> Shift:
    """Create a shift by name with these parameters: `shift("contrast", severity=3)(images, seed=0)`."""
    return catalog.create(name, **settings)
