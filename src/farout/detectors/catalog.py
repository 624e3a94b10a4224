"""Registry of the detectors."""

from __future__ import annotations

from typing import Any

from farout import aliases
from farout.core import Detector, PostHoc
from farout.registry import Registry, UnknownName, registry_of, unknown

catalog: Registry[PostHoc | Detector] = Registry("detector", (Detector, PostHoc), aliases.DETECTORS)
register = catalog.add


def names_of(base: type) -> list[str]:
    """Return the names of the registered classes that derive from `base`."""
    makers = ((name, catalog[name]) for name in catalog)
    return [name for name, maker in makers if isinstance(maker, type) and issubclass(maker, base)]


def registry_with(name: str) -> Registry[PostHoc | Detector]:
    """Return the registry that has this name: the detectors, else the adapters; an error suggests names of both."""
    try:
        catalog[name]
    except UnknownName:
        adapters = registry_of("adapter")
        if name not in adapters:
            others = {**aliases.ADAPTERS, **aliases.DETECTORS}
            raise unknown("detector", name, [*catalog.names(), *adapters.names()], others) from None
        return adapters
    return catalog


def create_any(name: str, /, **params: Any) -> PostHoc | Detector:
    """Build the detector, else the adapter, of this name."""
    return registry_with(name).create(name, **params)
