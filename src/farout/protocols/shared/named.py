"""Things that a study file names, some with settings of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from farout.registry import Registry

T = TypeVar("T")
Named = str | Mapping[str, Any]
"""A thing by name, or with settings: {name: affine, interpolation: bilinear, label: smooth}."""


def parted(what: str, item: Named) -> tuple[str, dict[str, Any]]:
    """Return the name and the settings of a thing; `what` says in errors where it stands."""
    settings = {"name": item} if isinstance(item, str) else dict(item) if isinstance(item, Mapping) else {}
    if not isinstance(settings.get("name"), str):
        raise ValueError(f"{what}: expected a name, or a mapping with a name and settings, got {item!r}")
    return settings.pop("name"), settings


def made(what: str, registry: Registry[T], items: Sequence[Named]) -> dict[str, T]:
    """Things by label."""
    if isinstance(items, str) or not items:
        raise ValueError(f"{what} must list one or more of {', '.join(registry.names())}, got {items!r}")
    found: dict[str, T] = {}
    for item in items:
        name, settings = parted(what, item)
        label = settings.pop("label", None)
        thing = registry.create(name, **settings)
        label = label or thing.label  # type: ignore[attr-defined]
        if not isinstance(label, str):
            raise ValueError(f"{what}: a label must be a string, got {label!r}")
        if label in found:
            raise ValueError(f"two {what} are called {label!r}; tell them apart: {{name: {label}, …, label: another}}")
        found[label] = thing
    return found
