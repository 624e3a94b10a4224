"""Registry of the shifts."""

from __future__ import annotations

from typing import Any

from farout import aliases
from farout.core import Shift
from farout.registry import Registry

catalog: Registry[Shift] = Registry("shift", Shift, aliases.SHIFTS)
register = catalog.add


def shift(name: str, /, **settings: Any) -> Shift:
    """Create a shift by name with these parameters: `shift("contrast", severity=3)(images, seed=0)`."""
    return catalog.create(name, **settings)
