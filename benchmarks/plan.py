"""The estimate of `farout plan` beside what the run then takes, and the time that planning itself takes.

Both are seconds that this process computes with one thread, so that a busy machine does not change their ratio.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import farout
from farout.api.plan import Planned
from farout.study.engines.run import group_works
from farout.study.estimates.estimate import KINDS, estimate, size
from farout.study.spec import StudySpec

INLIERS = {"train": {"name": "shapes", "split": "train", "limit": 1000}, "test": {"name": "shapes", "limit": 300}}
OUTLIERS = [{"name": "shapes", "split": "test/ood_hue", "limit": 300}]
LIMIT = 600.0
"""Seconds of a calibration: no limit in effect, also on a busy machine."""
DETECTORS = ["msp", "knn", "mds", "gram", "vim", "odin"]
STUDIES: dict[str, dict[str, Any]] = {
    "training": {
        "networks": [{"name": "resnet20", "train": {"epochs": 3}}],
        "detectors": ["msp"],
        "protocols": ["clean"],
    },
    "scoring": {
        "networks": [{"name": "resnet20", "train": {"epochs": 1}}],
        "detectors": DETECTORS,
        "protocols": ["clean", {"name": "rood", "setups": {"dark": ["contrast"]}}],
    },
    "searching": {
        "networks": [{"name": "resnet20", "train": {"epochs": 1}}],
        "detectors": ["msp", "knn"],
        "protocols": [{"name": "evg", "variations": ["color", "affine"], "chains": 16, "steps": 40}],
    },
    "attacking": {
        "networks": [{"name": "resnet20", "train": {"epochs": 1}}],
        "detectors": ["msp"],
        "protocols": [{"name": "evasion", "images": 32}],
    },
}


def compare(name: str, content: dict[str, Any], folder: Path) -> None:
    """Print the estimate of a study and what its run takes."""
    spec = StudySpec.model_validate(
        {"name": name, "inliers": INLIERS, "outliers": OUTLIERS, "budget": "quick", **content}
    )
    began = time.process_time()
    planned = Planned.of(spec, folder)
    works = group_works(planned.missing)
    planning = time.process_time() - began
    found = estimate(works, torch.device("cpu"), limit=LIMIT)
    began = time.process_time()
    farout.run(spec, folder, workers=0)
    took = time.process_time() - began
    written = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    shares = ", ".join(f"{KINDS[kind]} {seconds:.1f}" for kind, seconds in found.seconds.items())
    print(
        f"{name:<12}{len(works):>6}{planning:>10.1f}{found.took:>12.1f}{found.total:>11.1f}{took:>9.1f}"
        f"{found.total / took:>8.2f}   {size(found.disk):>8}{size(written):>9}   {shares}",
        flush=True,
    )


def main() -> None:
    """Estimates beside measurements."""
    torch.set_num_threads(1)
    print("\nEstimates of farout plan (seconds of one core)")
    print("study        works  planning  calibration  estimate      run   ratio       disk  written   estimate by kind")
    with tempfile.TemporaryDirectory() as folder:
        for name, content in STUDIES.items():
            compare(name, content, Path(folder) / name)


if __name__ == "__main__":
    main()
