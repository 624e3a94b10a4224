"""Study of `farout demo`, which runs in minutes: train a network on SHAPES, test every post-hoc detector on every
attribute, and a few of them by worst-case search, under realistic shifts of inliers, and on adversarial examples."""

from __future__ import annotations

from farout.core import PostHoc
from farout.data.scenes.worlds import ATTRIBUTES
from farout.detectors import names_of
from farout.study.spec import StudySpec

WITHOUT_PERTURBATION = {"mds_layers": {"name": "mds_layers", "epsilon": 0.0}}
"""Detectors with settings that need no perturbed passes."""
SEARCH_DETECTORS = ["msp", "knn", "mds", "vim"]
"""Detectors whose worst case is searched; each search needs thousands of scores."""
SHIFT_DETECTORS = ["msp", "ebo", "knn", "mds", "vim", "dn2"]
"""Detectors tested on inliers under every shift; dn2 is the one-class detector, fitted on each class separately."""
ATTACKS = ["pgd", "fgsm", "deepfool", "adaptive_pgd"]
COLOR_WITHOUT_HUE = {"name": "color", "hue": [0, 0], "label": "color, hue kept"}
"""Color variation without hue: changing the hue would turn outliers with a new hue into inliers."""


def study() -> StudySpec:
    """Return the study that `farout demo` runs."""
    return StudySpec.model_validate(
        {
            "name": "demo",
            "inliers": "shapes",
            "networks": [{"name": "resnet20", "train": {"epochs": 8, "augment": "none"}}],
            "detectors": [WITHOUT_PERTURBATION.get(name, name) for name in names_of(PostHoc) if name != "ensemble"],
            "protocols": [
                {"name": "attributes", "shift": list(ATTRIBUTES)},
                {"name": "evg", "variations": ["affine", COLOR_WITHOUT_HUE], "detectors": SEARCH_DETECTORS},
                {"name": "rood", "images": 250, "detectors": SHIFT_DETECTORS, "one_class": ["dn2"]},
                {
                    "name": "evasion",
                    "attacks": ATTACKS,
                    "images": 100,
                    "adaptive_images": 20,
                    "detectors": SEARCH_DETECTORS,
                },
            ],
            "seeds": [1],
            "budget": "quick",
        }
    )
