"""Components that a study file names, with or without settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from farout.registry import Named, Registry, split_settings

T = TypeVar("T")


def create_components(what: str, registry: Registry[T], items: Sequence[Named]) -> dict[str, T]:
    """Return the components by label; raise if two have the same."""
    if isinstance(items, str) or not items:
        raise ValueError(f"{what} must list one or more of {', '.join(registry.names())}, got {items!r}")
    components: dict[str, T] = {}
    for item in items:
        name, settings = split_settings(what, item)
        label = settings.pop("label", None)
        component = registry.create(name, **settings)
        label = component.label if label is None else label  # type: ignore[attr-defined]
        if not isinstance(label, str) or not label:
            raise ValueError(f"{what}: a label must be a string that is not empty, got {label!r}")
        if label in components:
            raise ValueError(f"two {what} are called {label!r}; tell them apart: {{name: {label}, …, label: another}}")
        components[label] = component
    return components
