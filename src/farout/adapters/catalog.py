"""Registry of the adapters, and the lookup that turns a study's name into a detector."""

from __future__ import annotations

from typing import Any, Literal

from farout import aliases
from farout.core import Detector, PostHoc
from farout.detectors.catalog import catalog
from farout.registry import Registry, UnknownName, unknown

ADAPTERS: Registry[PostHoc | Detector] = Registry("adapter", (Detector, PostHoc), aliases.ADAPTERS)
"""Registry of classes that adapt an external detector."""
adapter = ADAPTERS.add

Larger = Literal["outlying", "inlying"]
"""Meaning of a larger score of an external detector."""


def home(name: str) -> Registry[PostHoc | Detector]:
    """Return the registry that has this name: the detectors, else the adapters; an error suggests names of both."""
    try:
        catalog[name]
    except UnknownName:
        if name not in ADAPTERS:
            others = {**aliases.ADAPTERS, **aliases.DETECTORS}
            raise unknown("detector", name, [*catalog.names(), *ADAPTERS.names()], others) from None
        return ADAPTERS
    return catalog


def create(name: str, /, **params: Any) -> PostHoc | Detector:
    """Build the detector, else the adapter, of this name."""
    return home(name).create(name, **params)


def sign_of(larger: str) -> int:
    """Return the factor that makes scores larger for outliers."""
    if larger not in ("outlying", "inlying"):
        raise ValueError(f"larger must be 'outlying' or 'inlying' (what a larger score means), got {larger!r}")
    return 1 if larger == "outlying" else -1
