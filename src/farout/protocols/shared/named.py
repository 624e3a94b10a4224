"""Things that a study file names, some with settings of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from farout.registry import Registry

T = TypeVar("T")
Named = str | Mapping[str, Any]
"""A thing by name, or with settings: {name: affine, interpolation: bilinear, label: smooth}."""


def made(what: str, registry: Registry[T], items: Sequence[Named]) -> dict[str, T]:
    """Things by label."""
    if isinstance(items, str) or not items:
        raise ValueError(f"{what} must list one or more of {', '.join(registry.names())}, got {items!r}")
    found: dict[str, T] = {}
    for item in items:
        settings = {"name": item} if isinstance(item, str) else dict(item) if isinstance(item, Mapping) else {}
        if "name" not in settings:
            raise ValueError(f"{what}: expected a name, or a mapping with a name and settings, got {item!r}")
        thing = registry.create(settings.pop("name"), **{k: v for k, v in settings.items() if k != "label"})
        label = settings.get("label") or thing.label  # type: ignore[attr-defined]
        if not isinstance(label, str):
            raise ValueError(f"{what}: a label must be a string, got {label!r}")
        if label in found:
            raise ValueError(f"two {what} are called {label!r}; tell them apart: {{name: {label}, …, label: another}}")
        found[label] = thing
    return found
