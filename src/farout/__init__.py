"""farout: a stress-test suite for out-of-distribution detectors.

Public names are imported when first used, so that `import farout` and `farout --help` do not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from farout import (
        adapters,
        attacks,
        attention,
        data,
        detectors,
        generators,
        metrics,
        networks,
        protocols,
        search,
        shifts,
        training,
        variations,
    )
    from farout.api.attack import attack
    from farout.api.check import check
    from farout.api.generate import generate
    from farout.api.run import Result, run
    from farout.api.stress import stress
    from farout.api.train import train
    from farout.api.worst_case import Found, worst_case
    from farout.attacks.attack import Attack
    from farout.attacks.judging import Attacked
    from farout.core import Activations, Detector, ImageSet, NotFitted, PostHoc, Reduction, Shift
    from farout.data import load
    from farout.detectors.panel.panel import Panel
    from farout.networks.network import Network
    from farout.registry import register
    from farout.scores import NonFiniteScores
    from farout.shifts import shift
    from farout.variations.variation import Variation

_HOMES = {
    "Activations": "core",
    "Attack": "attacks.attack",
    "Attacked": "attacks.judging",
    "Detector": "core",
    "Found": "api.worst_case",
    "ImageSet": "core",
    "Network": "networks.network",
    "NonFiniteScores": "scores",
    "NotFitted": "core",
    "Panel": "detectors.panel.panel",
    "PostHoc": "core",
    "Reduction": "core",
    "Result": "api.run",
    "Shift": "core",
    "Variation": "variations.variation",
    "attack": "api.attack",
    "check": "api.check",
    "generate": "api.generate",
    "load": "data",
    "register": "registry",
    "run": "api.run",
    "shift": "shifts",
    "stress": "api.stress",
    "train": "api.train",
    "worst_case": "api.worst_case",
}
_FOLDERS = (
    "adapters",
    "attacks",
    "attention",
    "data",
    "detectors",
    "generators",
    "metrics",
    "networks",
    "protocols",
    "search",
    "shifts",
    "training",
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
    "Reduction",
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
    "generate",
    "generators",
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
    "train",
    "training",
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
