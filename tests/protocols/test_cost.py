"""The protocol `cost`: the time of the fastest batch, with the device's name, measured once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import farout
from farout.protocols import plan
from farout.protocols.cost.tables import SECONDS as COLUMN
from farout.protocols.cost.tables import summarize
from farout.study.cells import cost
from farout.study.spec import StudySpec
from farout.study.study import from_spec

SECONDS = [0.1, 0.5, 0.25, 0.75, 0.5, 0.5]
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


def test_the_shared_pass_and_the_detector_are_timed_apart_and_the_fastest_sum_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    monkeypatch.setattr(cost.time, "perf_counter", lambda: clock[0])
    passes, own = iter([0.1, 1.0, 2.0, 0.5, 3.0, 4.0]), iter([0.1, 0.5, 0.2, 2.0, 3.0, 4.0])

    def takes(seconds: float) -> None:
        clock[0] += seconds

    def score(images: torch.Tensor) -> list[Any]:
        takes(next(passes))
        return [lambda: takes(next(own))]

    images = SimpleNamespace(about=SimpleNamespace(total=4), open=lambda store: farout.load("toy", limit=4))
    cell = SimpleNamespace(subject=SimpleNamespace(open=lambda *_: score), images=images)
    job = cost.CostJob(cell, None, torch.device("cpu"))  # type: ignore[arg-type]
    chunk = cost.Chunk("test", 0, 24)
    job.collect(chunk, job.run(chunk, lambda count: None))
    facts = job.record().facts
    assert (facts["per_10000"], facts["per_10000_without_pass"]) == pytest.approx((1.5 * 2500, 0.5 * 2500))


def test_the_table_is_sorted_by_seconds_and_the_bars_show_both() -> None:
    known = {
        name: {"per_10000": seconds, "per_10000_without_pass": own, "device": "a machine"}
        for name, seconds, own in (("slow", 9.0, 1.0), ("fast", 2.0, 0.5), ("free", 3.0, 0.0))
    }
    rows = [SimpleNamespace(cell=name, tags={"network": "", "detector": name}) for name in known]
    results = SimpleNamespace(done=lambda protocol: rows, store=SimpleNamespace(facts=known.__getitem__))
    summary = summarize(results, "cost")  # type: ignore[arg-type]
    assert [line[COLUMN] for line in summary.tables[0].lines] == [2.0, 3.0, 9.0]
    assert "on one thread of a machine" in summary.tables[0].caption
    (panel,) = summary.figures[0].panels.values()
    found = {(row["bar"], row["group"]): row["value"] for row in panel.to_dict("records")}
    alone, own = "detector alone", "without the shared forward pass"
    assert found == {
        ("fast", alone): 2.0, ("free", alone): 3.0, ("slow", alone): 9.0, ("fast", own): 0.5, ("slow", own): 1.0,
    }  # fmt: skip
