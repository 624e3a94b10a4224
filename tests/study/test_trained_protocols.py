"""Every trained detector runs through every protocol, without special cases, in one small study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import farout
from farout.detectors import TrainedDetector, names_of
from farout.detectors.catalog import catalog
from farout.study.spec import StudySpec
from helpers.generated_sets import NEAR
from helpers.tiny_sizes import SIZES


def shapes(split: str, limit: int) -> dict[str, Any]:
    return {"name": "shapes", "split": split, "limit": limit}


def study() -> StudySpec:
    training = {"epochs": 1, "batch": 16}
    trained = [{"name": name, "label": name, "training": training, **SIZES.get(name, {})}
               for name in names_of(TrainedDetector)]  # fmt: skip
    exposed = any(one.outliers != "unused" for one in map(catalog.__getitem__, names_of(TrainedDetector)))  # type: ignore[attr-defined]
    near = {key: value for key, value in NEAR.items() if key != "name"} | {"count": 8, "interval": [0, 1]}
    return StudySpec.model_validate(
        {
            "name": "trained",
            "inliers": {"train": shapes("train", 64), "val": shapes("val", 32), "test": shapes("test/id", 32)},
            "outliers": [shapes("test/ood_hue", 16), shapes("test/ood_cls", 16)],
            "detectors": trained,
            "protocols": [
                "clean",
                "cost",
                {"name": "attributes", "shift": ["hue"]},
                {"name": "evg", "variations": ["pixel", "affine"], "chains": 4, "steps": 2, "control": False},
                {"name": "rood", "setups": {"turned": ["rot90"]}, "images": 16},
                {"name": "evasion", "attacks": ["score_pgd"], "images": 4, "adaptive_images": 4},
                {"name": "raised_bar", "near": near, "shifted": False, "sanity": False, "corruptions": False},
            ],
            "budget": "quick",
            **({"auxiliary_outliers": {"name": "noise", "limit": 32}} if exposed else {}),
        }
    )


@pytest.mark.slow
def test_every_trained_detector_runs_through_every_protocol(tmp_path: Path) -> None:
    result = farout.run(study(), tmp_path)
    assert result.outcome.failed == {}
    assert not result.results.pending()
    for table in ("clean", "cost", "attributes", "evg", "rood", "evasion_adaptive", "raised_bar_details"):
        assert set(result.table(table)["detector"]) == set(names_of(TrainedDetector)), table
