"""Registry of the detectors."""

from __future__ import annotations

from typing import TypeVar

from farout import aliases
from farout.core import Detector, PostHoc
from farout.registry import Registry

catalog: Registry[PostHoc | Detector] = Registry("detector", aliases.DETECTORS)

D = TypeVar("D", bound=type[PostHoc] | type[Detector])


def register(cls: D) -> D:
    """Class decorator: register a detector under its `name`, so that studies and the command line find it."""
    catalog.register(cls.name)(cls)
    return cls
