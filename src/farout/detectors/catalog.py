"""Registry of the detectors."""

from __future__ import annotations

from farout import aliases
from farout.core import Detector, PostHoc
from farout.registry import Registry

catalog: Registry[PostHoc | Detector] = Registry("detector", (Detector, PostHoc), aliases.DETECTORS)
register = catalog.add
