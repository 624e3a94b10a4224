"""The adapters by name, and the one place where a study's name becomes a detector."""

from __future__ import annotations

from typing import Any, Literal

from farout import aliases
from farout.core import Detector, PostHoc
from farout.detectors.catalog import catalog
from farout.registry import Registry, UnknownName, unknown

ADAPTERS: Registry[PostHoc | Detector] = Registry("adapter", (Detector, PostHoc), aliases.ADAPTERS)
"""Names -> classes that make a detector of somebody else's thing."""
adapter = ADAPTERS.add

Larger = Literal["outlying", "inlying"]
"""What a larger score of somebody else's means."""


def home(name: str) -> Registry[PostHoc | Detector]:
    """Where this name is known: among the detectors, else the adapters; an unknown name is answered with both."""
    try:
        catalog[name]
    except UnknownName:
        if name not in ADAPTERS:
            others = {**aliases.ADAPTERS, **aliases.DETECTORS}
            raise unknown("detector", name, [*catalog.names(), *ADAPTERS.names()], others) from None
        return ADAPTERS
    return catalog


def create(name: str, /, **params: Any) -> PostHoc | Detector:
    """The detector of this name, else the adapter of this name."""
    return home(name).create(name, **params)


def sign_of(larger: str) -> int:
    """What turns scores into ours, which are larger for outliers."""
    if larger not in ("outlying", "inlying"):
        raise ValueError(f"larger must be 'outlying' or 'inlying' (what a larger score means), got {larger!r}")
    return 1 if larger == "outlying" else -1
