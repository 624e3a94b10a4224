"""Making classes of your own known by name, so that studies and the command line find them."""

from __future__ import annotations

from typing import Any, TypeVar

from farout.attacks.attack import Attack
from farout.attacks.catalog import ATTACKS
from farout.core import Detector, PostHoc
from farout.detectors.catalog import catalog
from farout.registry import Registry
from farout.search.catalog import SEARCHES
from farout.search.search import Search
from farout.variations.catalog import VARIATIONS
from farout.variations.variation import Variation

C = TypeVar("C", bound=type)

REGISTRIES: dict[type, Registry[Any]] = {
    Detector: catalog,
    PostHoc: catalog,
    Variation: VARIATIONS,
    Search: SEARCHES,
    Attack: ATTACKS,
}


def register(cls: C) -> C:
    """Class decorator: make a detector, a variation, a search or an attack known under its `name`."""
    for base, registry in REGISTRIES.items():
        if isinstance(cls, type) and issubclass(cls, base):
            registry.register(cls.name)(cls)  # type: ignore[attr-defined]
            return cls
    kinds = ", ".join(f"farout.{base.__name__}" for base in (Detector, PostHoc, Variation, Attack))
    raise TypeError(f"expected a class that derives {kinds} or farout.search.Search, got {cls!r}")
