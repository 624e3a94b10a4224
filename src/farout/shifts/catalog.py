"""The shifts by name."""

from __future__ import annotations

from typing import Any, TypeVar

from farout import aliases
from farout.core import Shift
from farout.registry import Registry

catalog: Registry[Shift] = Registry("shift", aliases.SHIFTS)

S = TypeVar("S", bound=type[Shift])


def register(cls: S) -> S:
    """Class decorator: make a shift known under its `name`, so that studies and the command line find it."""
    catalog.register(cls.name)(cls)
    return cls


def shift(name: str, /, **settings: Any) -> Shift:
    """The shift of this name with these settings: `shift("contrast", severity=3)(images, seed=0)`."""
    return catalog.create(name, **settings)
