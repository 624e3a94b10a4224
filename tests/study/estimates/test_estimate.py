"""Estimates: the sums of a plan with a clock that is known, and their text."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from farout.protocols import plan
from farout.study.cells.cell import Work, closure
from farout.study.cells.score import ScoreWork
from farout.study.cells.search import SearchWork
from farout.study.cells.train import TrainWork
from farout.study.engines.run import group_works
from farout.study.estimates.calibration import FITTED, GPU, LONG, Calibration, Line, Measured, calibrate
from farout.study.estimates.demands import RESULT, Demand, demands
from farout.study.estimates.estimate import Estimate, add_up, estimate, seconds_of, size, span
from farout.study.estimates.parts import Part, Trial
from farout.study.spec import StudySpec
from farout.study.study import from_spec

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def works(tmp_path_factory: pytest.TempPathFactory) -> list[Work]:
    """Works of a study with a training, two detectors, one set of outliers and searches."""
    content: dict[str, Any] = {
        "name": "small",
        "inliers": {"train": {"name": "toy", "split": "train", "limit": 100}, "test": {"name": "toy", "limit": 40}},
        "outliers": [{"name": "noise", "limit": 30}],
        "networks": [{"name": "lenet", "train": {"epochs": 2}}],
        "detectors": ["msp", {"name": "knn", "k": 3}],
        "protocols": ["clean", {"name": "evg", "variations": ["color"], "chains": 4, "steps": 10}],
        "budget": "quick",
    }
    entries = plan(from_spec(StudySpec.model_validate(content)))
    return group_works(closure([entry.cell for entry in entries]))


def units(works: list[Work]) -> dict[str, float]:
    found: dict[str, float] = {}
    for work in works:
        for demand in demands(work):
            found[demand.part.kind] = found.get(demand.part.kind, 0.0) + demand.units
    return found


def test_every_image_of_the_plan_is_asked_for_once(works: list[Work]) -> None:
    found = units(works)
    searches = [work for work in works if isinstance(work, SearchWork)]
    assert len(searches) == 4  # two detectors, two methods
    queries = sum(work.total_cost for work in searches)
    (training,) = (work for work in works if isinstance(work, TrainWork))
    fitted = training.cells[0].train.about.total
    assert found["training"] == training.total_cost == 2 * fitted
    scored = [work for work in works if isinstance(work, ScoreWork)]
    images = sum(work.total_cost for work in scored)
    validated = 2 * training.cells[0].val.about.total
    assert found["pass"] == validated + 100 + images + queries
    detectors = [
        cell for work in scored for cell in work.cells if cell.subject.network and hasattr(cell.subject, "fit")
    ]
    assert found["score"] == sum(cell.images.about.total for cell in detectors) + queries
    assert found["decode"] == queries
    assert found["fit"] == 1  # msp is not fitted
    assert found["result"] == sum(len(work.cells) for work in works)
    assert "other" not in found


def test_sums_are_exact_with_known_rates(works: list[Work]) -> None:
    wanted = [demand for work in works for demand in demands(work)]
    rates = {"training": 0.5, "pass": 0.25, "score": 0.125, "decode": 2.0, "fit": 8.0}
    measured = {d.part: Measured(Line(rates[d.part.kind])) for d in wanted if d.part.trial}
    total = add_up(works, Calibration(measured))
    found = units(works)
    assert total.seconds == {kind: found[kind] * rate for kind, rate in rates.items()} | {
        "result": pytest.approx(found["result"] * RESULT.rough)
    }
    assert total.rough == pytest.approx(found["result"] * RESULT.rough)
    assert sum(seconds_of(work, Calibration(measured)) for work in works) == pytest.approx(total.total)


class FakeTime:
    """Clock that moves only when a trial runs."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def part(self, kind: str, base: float, slope: float = 0.0, rough: float = 1.0) -> Part:
        def trial(device: torch.device, fitted: int) -> Trial:
            def call() -> None:
                self.now += base + slope * fitted

            return Trial(call, 4, held=1000.0 + 10 * fitted)

        return Part(kind, f"{kind} {base} {slope}", rough, trial, grows=slope > 0)


def test_rates_are_seconds_per_unit_and_grow_with_the_fitted_images() -> None:
    clock = FakeTime()
    steady, growing = clock.part("pass", 0.25), clock.part("score", 0.0, slope=1 / 64)
    found = calibrate([Demand(steady, 8), Demand(growing, 8, 1024)], CPU, clock=clock, elapsed=clock)
    assert found.seconds(Demand(steady, 8)) == 8 * 0.25 / 4
    assert found.seconds(Demand(growing, 8, 1024)) == 8 * 1024 / 64 / 4
    assert found.held(Demand(growing, 8, 1024)) == 1000 + 10 * 1024
    assert found.held(Demand(steady, 8)) == 1000 + 10 * FITTED[0]
    assert found.took == clock.now


def test_a_fit_that_was_not_tried_out_takes_longer_on_more_images() -> None:
    unknown = Part("fit", "fit", 0.5)
    assert Calibration({}).seconds(Demand(unknown, 1, 100)) == 50
    assert Calibration({}).seconds(Demand(Part("pass", "", 0.5), 3)) == 1.5


def test_the_largest_parts_come_first_and_the_limit_ends_it() -> None:
    clock = FakeTime()
    small, large = clock.part("pass", 2.0, rough=0.1), clock.part("gradient", 2.0, rough=9.0)
    found = calibrate([Demand(small, 1), Demand(large, 1)], CPU, limit=1.5, clock=clock, elapsed=clock)
    assert list(found.measured) == [large]
    assert found.seconds(Demand(small, 7)) == pytest.approx(0.7)


def test_a_part_that_cannot_be_tried_out_counts_by_its_rough_rate() -> None:
    def refuse(device: torch.device, fitted: int) -> Trial:
        raise ValueError("not on noise")

    part = Part("score", "a detector", 0.5, refuse)
    found = calibrate([Demand(part, 2)], CPU)
    assert (found.measured, found.reason) == ({}, "a detector: not on noise")
    assert found.seconds(Demand(part, 2)) == 1.0


def test_the_parts_of_a_study_can_be_tried_out(works: list[Work]) -> None:
    threads = torch.get_num_threads()
    found = estimate(works, CPU, limit=600)  # a busy machine would leave some out
    assert torch.get_num_threads() == threads
    assert found.rough == pytest.approx(found.seconds["result"]), "everything else was measured"
    assert all(found.seconds[kind] > 0 for kind in ("training", "pass", "score", "decode", "fit"))
    weights = 4 * 44_000  # LeNet-5 has 44 thousand parameters here
    assert 0.5 * weights < found.disk < 20 * 2**20


def test_the_text_says_what_it_is_and_from_what() -> None:
    found = Estimate(
        3, {"pass": 5400.0, "training": 1800.0}, rough=3600.0, memory=2e9, disk=5e8, process=1e9, took=12.4, parts=7
    )
    text = "\n".join(found.lines(4, "cpu"))
    assert text.startswith("estimate of what is missing, to about a factor of 3, from trying out 7 parts")
    assert "about 2 hours of one core of this machine (passes 75%, training 25%)" in text
    assert "about 30 minutes with --workers 4, if as many cores are free" in text
    assert "memory  6 GB: 1 GB per process and 2 GB for activations to fit on" in text
    assert "disk    500 MB for results" in text
    assert "50% of the time is a rough guess" in text


def test_a_cluster_is_told_core_hours_or_gpu_hours() -> None:
    found = Estimate(3, {"pass": 7200.0})
    cores, gpus = ("\n".join(found.lines(4, device, "slurm")) for device in ("cpu", "cuda"))
    assert "2 core hours with --engine slurm" in cores
    assert "GPU hours are not known here" in cores
    assert "2 GPU hours with --engine slurm" in gpus
    assert "--workers" not in cores + gpus


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "about 1 s"), (119, "about 119 s"), (120, "about 2 minutes"), (5400, "about 90 minutes"),
     (7200, "about 2 hours"), (172_800, "about 2 days"), (86_400 * 1234, "about 1,234 days")],
)  # fmt: skip
def test_spans(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_sizes() -> None:
    assert [size(n) for n in (0, 1500, 2.34e6, 999e6, 1.5e9, 3e12)] == [
        "0 kB",
        "2 kB",
        "2.3 MB",
        "999 MB",
        "1.5 GB",
        "3 TB",
    ]


def test_the_first_call_of_a_trial_compiles_and_does_not_count_unless_it_is_long() -> None:
    clock = FakeTime()

    def warming(first: float) -> Part:
        def trial(device: torch.device, fitted: int) -> Trial:
            seconds = iter([first])

            def call() -> None:
                clock.now += next(seconds, 0.25)

            return Trial(call, 1)

        return Part("pass", f"first {first}", 1.0, trial)

    parts = [warming(LONG - 1), warming(LONG + 1)]
    found = calibrate([Demand(part, 1) for part in parts], CPU, clock=clock, elapsed=clock)
    assert [found.seconds(Demand(part, 1)) for part in parts] == [0.25, LONG + 1]


def test_a_gpu_that_is_not_here_counts_by_rough_rates() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    found = calibrate([Demand(FakeTime().part("pass", 1.0, rough=60.0), 1)], torch.device("cuda"))
    assert found.measured == {}
    assert "cuda" in found.reason
    assert found.seconds(Demand(Part("pass", "", 60.0), 1)) == 60.0 / GPU
    text = "\n".join(add_up([], found).lines(1, "cuda", "slurm"))
    assert "GPU hours with --engine slurm, by rough rates, since this machine has no such device" in text
