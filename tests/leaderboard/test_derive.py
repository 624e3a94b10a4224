"""The plan that follows from descriptions is the one that follows from the images themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from farout.leaderboard.declared import Declarer, Recorder, declare, describe, write_columns
from farout.leaderboard.derive import derive, plan_study
from farout.study.results import plan_facts
from farout.study.sources.opening import opened_by
from farout.study.spec import StudySpec

NETWORKS = [{"name": "lenet", "train": {"epochs": 30}}, {"name": "resnet18", "width": 8, "train": {"epochs": 2}}]
STUDIES: dict[str, dict[str, Any]] = {
    "cut": {  # the budget leaves out a network and epochs
        "outliers": ["toy:test/ood_cls"], "networks": NETWORKS, "detectors": ["msp", "knn", "oe"],
        "auxiliary_outliers": ["noise"], "protocols": ["clean", "evasion", "rood", "cost", "evg"],
    },
    "generated": {
        "outliers": ["near_ood"], "networks": NETWORKS[:1], "detectors": ["msp"], "protocols": ["raised_bar"],
    },
}  # fmt: skip


@pytest.mark.parametrize("name", STUDIES)
def test_plan_without_images(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"inliers": "toy", "budget": "quick", **STUDIES[name]}))
    spec, recorder, images = StudySpec.read(path), Recorder(), {}
    with opened_by(recorder):
        expected = plan_facts(*plan_study(spec))
    for number, (data, opened) in enumerate(recorder.sets.values()):
        file = tmp_path / f"{number}.parquet"
        facts, columns = describe(opened, data, f"data/{number}.parquet")
        if columns:
            write_columns(columns, file)
        images[data.model_dump_json()] = declare(facts, file)
    derived = derive(spec, Declarer(images, {}))
    assert derived.left_out == []
    assert derived.facts == expected
    assert len(expected["rows"]) > 50
    assert bool(expected["cuts"])


def test_adapters_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    detectors = ["mls", {"name": "http", "url": "http://127.0.0.1:9/"}]
    study = {"inliers": {"test": "toy"}, "outliers": ["noise"], "networks": [], "detectors": detectors}
    path.write_text(yaml.safe_dump(study))
    spec = StudySpec.read(path)
    with pytest.raises(ValueError, match="read a network's activations"):
        derive(spec, Declarer({}, {}))
    only = spec.model_copy(update={"detectors": spec.detectors[1:]})
    with pytest.raises(ValueError, match="detector http: it is not a part of farout, or reads what is outside of it"):
        derive(only, Declarer({}, {}))
