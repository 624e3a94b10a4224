"""The demonstration: a network trained on the spot on the built-in set, and every detector, in minutes."""

from __future__ import annotations

from farout import detectors
from farout.study.spec import StudySpec


def study() -> StudySpec:
    """The study that `farout demo` runs."""
    return StudySpec.model_validate(
        {
            "name": "demo",
            "inliers": "toy",
            "networks": [{"name": "resnet20", "train": {"epochs": 8}}],
            "detectors": detectors.names(),
            "protocols": ["clean"],
            "budget": "quick",
        }
    )
