"""Study of `farout demo`, which runs in minutes: train a network on SHAPES, test every post-hoc detector on every
attribute, and a few of them by worst-case search, under realistic shifts of inliers, on adversarial examples, and on
Near-OoD and Shifted images of small generators; measure their inference time."""

from __future__ import annotations

from typing import Any

from farout.core import PostHoc
from farout.data.scenes.worlds import ATTRIBUTES
from farout.detectors import names_of
from farout.study.spec import StudySpec

WITHOUT_PERTURBATION = {"mds_layers": {"name": "mds_layers", "epsilon": 0.0}}
"""Detectors with settings that need no perturbed passes."""
SEARCH_DETECTORS = ["msp", "knn"]
"""Detectors whose worst case is searched; each search needs thousands of scores."""
FEW_DETECTORS = ["msp", "knn", "mds", "vim"]
"""Detectors tested on adversarial examples and on generated images."""
SHIFT_DETECTORS = ["msp", "ebo", "knn", "mds", "vim", "dn2"]
"""Detectors tested on inliers under every shift; dn2 is the one-class detector, fitted on each class separately."""
ATTACKS = ["pgd", "fgsm", "deepfool", "adaptive_pgd"]
COLOR_WITHOUT_HUE = {"name": "color", "hue": [0, 0], "label": "color, hue kept"}
"""Color variation without hue: changing the hue would turn outliers with a new hue into inliers."""
NETWORK = {"name": "resnet20", "train": {"epochs": 8, "augment": "none"}}
ENSEMBLE = {
    "ensemble": [{"name": "vgg11", "width": 8}, {"name": "alexnet", "width": 16}],
    "train": {"epochs": 6, "lr": 0.05, "batch": 64, "augment": "none"},
}
"""Networks that the generators are trained against; seconds each, and so far from perfect."""


def _generator(name: str, steps: int, **params: Any) -> dict[str, Any]:
    """Return a generator that is trained in seconds, with a higher learning rate than usual; it stays undertrained."""
    return {"name": name, **params, "train": {"steps": steps, "batch": 64, "lr": 5e-4}}


RAISED_BAR = {
    "name": "raised_bar",
    "near": {
        "generator": _generator("dcgan", 120, width=16, dim=32),
        "ensemble": ENSEMBLE,
        "lambda_s": [1, 2],
        "count": 256,
    },
    "shifted": {
        "generator": _generator("pix2pix", 80, width=8),
        "ensemble": ENSEMBLE,
        "lambda_p": 0.25,  # with the paper's 2, so short a training turns images into noise
        "count": 256,
    },
    "sanity": {**NETWORK, "seed": 1},
    "corruptions": ["gaussian_noise", "fog", "contrast", "pixelate"],
    "detectors": FEW_DETECTORS,
}
"""Near-OoD and Shifted sets, checked by the study's own network, which the generators have not seen."""


def study() -> StudySpec:
    """Return the study that `farout demo` runs."""
    return StudySpec.model_validate(
        {
            "name": "demo",
            "inliers": "shapes",
            "networks": [NETWORK],
            "detectors": [WITHOUT_PERTURBATION.get(name, name) for name in names_of(PostHoc) if name != "ensemble"],
            "protocols": [
                {"name": "attributes", "shift": list(ATTRIBUTES)},
                {"name": "evg", "variations": ["affine", COLOR_WITHOUT_HUE], "detectors": SEARCH_DETECTORS},
                {"name": "rood", "images": 200, "detectors": SHIFT_DETECTORS, "one_class": ["dn2"]},
                {
                    "name": "evasion",
                    "attacks": ATTACKS,
                    "images": 100,
                    "adaptive_images": 20,
                    "detectors": FEW_DETECTORS,
                },
                RAISED_BAR,
                {"name": "cost"},
            ],
            "seeds": [1],
            "budget": "quick",
        }
    )
