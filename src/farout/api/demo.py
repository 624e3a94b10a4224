"""The demonstration: a network trained on the spot on SHAPES, every detector under every attribute, and of a few the
worst case, how they take inliers under realistic shifts, and what they say of adversarial examples, in minutes."""

from __future__ import annotations

from farout import detectors
from farout.data.scenes.worlds import ATTRIBUTES
from farout.study.spec import StudySpec

CHEAP = {"mds_layers": {"name": "mds_layers", "epsilon": 0.0}}
"""Detectors in a form that takes no passes of its own; one network is no ensemble."""
SEARCHED = ["msp", "knn", "mds", "vim"]
"""Detectors whose worst case is searched: a search asks each by itself, thousands of times."""
SHIFTED = ["msp", "ebo", "knn", "mds", "vim", "dn2"]
"""Detectors that see every inlier under every shift; dn2 is the one-class detector, fitted on every class by itself."""
ATTACKS = ["pgd", "fgsm", "deepfool", "adaptive_pgd"]
KEPT_HUE = {"name": "color", "hue": [0, 0], "label": "color, hue kept"}
"""A hue that is turned makes inliers of the images whose hue is all that is new."""


def study() -> StudySpec:
    """The study that `farout demo` runs."""
    return StudySpec.model_validate(
        {
            "name": "demo",
            "inliers": "shapes",
            "networks": [{"name": "resnet20", "train": {"epochs": 8, "augment": "none"}}],
            "detectors": [CHEAP.get(name, name) for name in detectors.names() if name != "ensemble"],
            "protocols": [
                {"name": "attributes", "shift": list(ATTRIBUTES)},
                {"name": "evg", "variations": ["affine", KEPT_HUE], "detectors": SEARCHED},
                {"name": "rood", "images": 250, "detectors": SHIFTED, "one_class": ["dn2"]},
                {"name": "evasion", "attacks": ATTACKS, "images": 100, "adaptive_images": 20, "detectors": SEARCHED},
            ],
            "seeds": [1],
            "budget": "quick",
        }
    )
