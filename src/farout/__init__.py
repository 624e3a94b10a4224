"""farout: a stress-test suite for out-of-distribution detectors.

Public names are imported when first used, so that `import farout` and `farout --help` do not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from farout import (
        adapters,
        attacks,
        attention,
        data,
        detectors,
        metrics,
        networks,
        protocols,
        search,
        shifts,
        variations,
    )
    from farout.attacks.attack import Attack
    from farout.attacks.attacking import Attacked, attack
    from farout.battery import check
    from farout.core import Activations, Detector, ImageSet, NonFiniteScores, NotFitted, PostHoc, Shift
    from farout.data import load
    from farout.detectors.panel import Panel
    from farout.networks.network import Network
    from farout.registering import register
    from farout.result import Result, run
    from farout.shifts import shift
    from farout.stressing import stress
    from farout.variations.variation import Variation
    from farout.worst import Found, worst_case

_HOMES = {
    "Activations": "core",
    "Attack": "attacks.attack",
    "Attacked": "attacks.attacking",
    "Detector": "core",
    "Found": "worst",
    "ImageSet": "core",
    "Network": "networks.network",
    "NonFiniteScores": "core",
    "NotFitted": "core",
    "Panel": "detectors.panel",
    "PostHoc": "core",
    "Result": "result",
    "Shift": "core",
    "Variation": "variations.variation",
    "attack": "attacks.attacking",
    "check": "battery",
    "load": "data",
    "register": "registering",
    "run": "result",
    "shift": "shifts",
    "stress": "stressing",
    "worst_case": "worst",
}
_FOLDERS = (
    "adapters",
    "attacks",
    "attention",
    "data",
    "detectors",
    "metrics",
    "networks",
    "protocols",
    "search",
    "shifts",
    "variations",
)

__all__ = [
    "Activations",
    "Attack",
    "Attacked",
    "Detector",
    "Found",
    "ImageSet",
    "Network",
    "NonFiniteScores",
    "NotFitted",
    "Panel",
    "PostHoc",
    "Result",
    "Shift",
    "Variation",
    "adapters",
    "attack",
    "attacks",
    "attention",
    "check",
    "data",
    "detectors",
    "load",
    "metrics",
    "networks",
    "protocols",
    "register",
    "run",
    "search",
    "shift",
    "shifts",
    "stress",
    "variations",
    "worst_case",
]


def __getattr__(name: str) -> Any:
    if name in _FOLDERS:
        return importlib.import_module(f"farout.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(f"farout.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'farout' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
