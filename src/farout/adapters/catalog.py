"""Registry of the adapters, and the sign convention of external scores."""

from __future__ import annotations

from typing import Literal

from farout import aliases
from farout.core import Detector, PostHoc
from farout.registry import Registry

ADAPTERS: Registry[PostHoc | Detector] = Registry("adapter", (Detector, PostHoc), aliases.ADAPTERS)
"""Registry of classes that adapt an external detector."""
adapter = ADAPTERS.add

Larger = Literal["outlying", "inlying"]
"""Meaning of a larger score of an external detector."""


def sign_of(larger: str) -> int:
    """Return the factor that makes scores larger for outliers."""
    if larger not in ("outlying", "inlying"):
        raise ValueError(f"larger must be 'outlying' or 'inlying' (what a larger score means), got {larger!r}")
    return 1 if larger == "outlying" else -1
