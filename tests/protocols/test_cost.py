"""The protocol `cost`: the time of the fastest batch, with the device's name, measured once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import farout
from farout.protocols import plan
from farout.study.cells import cost
from farout.study.spec import StudySpec
from farout.study.study import from_spec

SECONDS = [9.0, 0.5, 0.25, 0.75, 0.5, 0.5]
"""Of the calls of the detector; the first is not counted."""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A detector on a clock of its own, and the time of its calls so far."""
    calls: list[float] = []

    @farout.register
    class Slow(farout.Detector):
        name = "slow"

        def score(self, images: torch.Tensor) -> torch.Tensor:
            calls.append(SECONDS[len(calls)])
            return images.mean((1, 2, 3))

    monkeypatch.setattr(cost.time, "perf_counter", lambda: sum(calls))
    return calls


def study(**changes: Any) -> StudySpec:
    content = {"name": "timed", "inliers": {"test": {"name": "toy", "limit": 50}}, "protocols": ["cost"]}
    return StudySpec.model_validate({**content, "detectors": ["slow"], **changes})


def test_the_fastest_batch_counts_and_is_measured_once(calls: list[float], tmp_path: Path) -> None:
    result = farout.run(study(), tmp_path)
    assert not result.outcome.failed
    (line,) = result.table("cost").to_dict("records")
    assert line == {
        "network": "", "detector": "slow", "seconds": 0.25 * 10_000 / 50, "seconds_without_pass": 0.25 * 10_000 / 50,
        "device": cost.device_name(torch.device("cpu")),
    }  # fmt: skip
    again = farout.run(study(), tmp_path)
    assert (len(calls), again.outcome.done) == (6, [])


def test_another_device_is_another_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = study(detectors=["msp"], networks=[{"name": "lenet", "train": {"epochs": 1}}], inliers="toy")
    here = [entry.cell.id for entry in plan(from_spec(spec))]
    monkeypatch.setattr(cost, "device_name", lambda device: "another")
    assert here != [entry.cell.id for entry in plan(from_spec(spec))]
