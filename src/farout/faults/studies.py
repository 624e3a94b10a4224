"""Small study of a user's detector on the built-in toy set."""

from __future__ import annotations

import copy
import inspect
from pathlib import Path
from typing import Any

import yaml

from farout.adapters.function import FUNCTIONS, Function
from farout.core import Detector, PostHoc
from farout.detectors.catalog import catalog
from farout.detectors.trained.detector import TrainedDetector
from farout.faults.bench import Bench
from farout.plugins import named_object
from farout.registry import register

SUBJECT = "subject"
"""Name under which the study knows an object of the user's file."""
LABEL = "tested"
PLUGIN = """\
from farout.faults.studies import register_subject

register_subject({reference!r})
"""


def toy_study(detector: str, folder: Path, plugins: tuple[Path, ...] = (), workers: int = 2) -> Bench:
    """Write a study that trains a small network, fits the detector, scores with it and searches its worst cases.

    detector: name of a registered detector, or file.py:Name.
    """
    entry = _entry(detector, folder)
    made = _registered(entry["name"]) if ":" not in detector else _made(named_object(detector))
    learns = isinstance(made, TrainedDetector)
    if learns:
        entry["training"] = {"epochs": 1}
    content: dict[str, Any] = {
        "name": "faults",
        "budget": "quick",
        "inliers": {
            "train": {"name": "toy", "split": "train", "limit": 256},
            "val": {"name": "toy", "split": "val", "limit": 64},
            "test": {"name": "toy", "limit": 192},
        },
        "outliers": [{"name": "toy", "split": "test/ood_cls", "limit": 192}],
        "networks": [{"name": "lenet", "train": {"epochs": 4, "lr": 0.02, "batch": 32}}],
        "detectors": [{**entry, "label": LABEL}, *([] if detector == "msp" else ["msp"])],
        "protocols": [
            "clean",
            {
                "name": "evg",
                "variations": ["affine"],
                "chains": 32,
                "steps": 15,
                "control": False,
                "detectors": [LABEL],
            },
        ],
    }
    if isinstance(made, TrainedDetector) and made.outliers == "required":
        content["auxiliary_outliers"] = {"name": "noise", "limit": 64}
    (folder / "study.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    own = (folder / "subject.py",) if ":" in detector else ()
    return Bench(folder, folder / "study.yaml", (*(path.resolve() for path in plugins), *own), workers)


def _entry(detector: str, folder: Path) -> dict[str, Any]:
    """Return the study's entry of the detector; write the plugin that registers an object of the user's file."""
    if ":" not in detector and not detector.endswith(".py"):
        return {"name": detector}
    named_object(detector)  # raise now if it is not there
    file, _, name = detector.rpartition(":")
    (folder / "subject.py").write_text(PLUGIN.format(reference=f"{Path(file).resolve()}:{name}"))
    return {"name": SUBJECT}


def register_subject(reference: str) -> None:
    """Register what `file.py:Name` refers to: a class, an object or a function."""
    subject = named_object(reference)

    def make() -> Detector | PostHoc:
        return _made(subject)

    register(kind="detector", name=SUBJECT)(make)


def _registered(name: str) -> Detector | PostHoc:
    return catalog.create(name)


def _made(subject: Any) -> Detector | PostHoc:
    """Return a new, unfitted detector. Raise TypeError if it is none."""
    if isinstance(subject, FUNCTIONS):
        subject = Function(subject)
    made = subject() if inspect.isclass(subject) else subject
    if not isinstance(made, Detector | PostHoc):
        raise TypeError(f"expected a farout.Detector or a farout.PostHoc, got {type(made).__name__}")
    return copy.deepcopy(made)
