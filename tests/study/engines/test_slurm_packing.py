"""Packing of works into array tasks: costs, sizes and dependencies in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from farout.study.cells.cell import Cell, Job, Work
from farout.study.engines.slurm.packing import LARGEST, START, PackedArray, array_lines, pack
from farout.study.estimates.calibration import GPU, Calibration, Line, Measured
from farout.study.estimates.demands import RESULT, demands
from farout.study.estimates.parts import PASS
from farout.study.store import Store


@dataclass(frozen=True)
class Images(Cell):
    """Cell without a computation."""

    name: str
    images: int = 1000
    needs: tuple[Images, ...] = ()
    role: str = "test"

    @property
    def identity(self) -> Any:
        return self.name

    @property
    def requires(self) -> tuple[Cell, ...]:
        return self.needs

    @property
    def title(self) -> str:
        return self.name

    def work(self, cells: Sequence[Any]) -> Work:
        return Pass(tuple(cells))


class Pass(Work):
    portable = True

    @property
    def roles(self) -> dict[str, int]:  # type: ignore[override]
        return {self.cells[0].role: self.cells[0].images}

    def prepare(self, store: Store, device: torch.device) -> Job:
        raise NotImplementedError


def works(*cells: Images) -> list[Work]:
    return [cell.work([cell]) for cell in cells]


def names(arrays: list[PackedArray]) -> list[list[list[str]]]:
    return [[[work.cells[0].title for work in task.works] for task in array.tasks] for array in arrays]


def pack_all(given: list[Work], minutes: float = 1e-9, **more: Any) -> list[PackedArray]:
    return list(pack(given, minutes, Calibration({}), more.get("running", {}), more.get("locked", {})))


COST = 1000 * PASS + RESULT.rough
"""Seconds of 1,000 images of a kind of cell that nothing is known of, and of one result."""


def test_tasks_are_filled_up_to_the_minutes_which_include_their_start() -> None:
    (array,) = pack_all(works(*(Images(name) for name in "abcde")), (START + 2.5 * COST) / 60)
    assert names([array]) == [[["a", "b"], ["c", "d"], ["e"]]]
    assert array.tasks[0].seconds == pytest.approx(START + 2 * COST)
    assert array.seconds == pytest.approx(3 * START + 5 * COST)


def test_measured_seconds_decide_and_a_gpu_replaces_many_cores() -> None:
    (work,) = works(Images("a"))
    parts = {demand.part: Measured(Line(0.5)) for demand in demands(work)}
    seconds = {
        name: next(pack([work], 30, calibration)).seconds - START
        for name, calibration in {
            "measured": Calibration(parts), "gpu": Calibration({}, device="cuda"), "core": Calibration({})
        }.items()
    }  # fmt: skip
    assert seconds["measured"] == pytest.approx(0.5 * 1000 + 0.5)
    assert seconds["core"] == pytest.approx(COST)
    assert seconds["gpu"] == pytest.approx(COST / GPU)


def test_lines_tell_hours_of_arrays_and_what_they_wait_for() -> None:
    train = Images("train", images=2_400_000)
    scores = [Images(f"score {number}", images=1_200_000, needs=(train,)) for number in range(4)]
    lines = list(array_lines(pack_all(works(train, *scores), 1.0), "core hours"))
    assert lines == [
        "    array 1: 1 task, 2 core hours, the longest about 2 hours: train",
        "    array 2: 4 tasks, 4 core hours, the longest about 60 minutes, after 1: score 0; score 1; score 2; …",
    ]


def test_an_array_waits_for_the_tasks_it_requires_and_not_for_theirs() -> None:
    train, other = Images("train"), Images("other")
    fit = Images("fit", needs=(train,))
    score = Images("score", needs=(train, fit))
    arrays = pack_all(works(score, other, fit, train))
    assert names(arrays) == [[["other"], ["train"]], [["fit"]], [["score"]]]
    first, second, third = arrays
    assert (first.after, second.after, third.after) == ([], [first.tasks[1]], [second.tasks[0]])


def test_works_with_other_requirements_are_other_arrays() -> None:
    a, b = Images("a"), Images("b")
    arrays = pack_all(works(a, b, Images("of a", needs=(a,)), Images("of b", needs=(b,))))
    assert names(arrays) == [[["a"], ["b"]], [["of a"]], [["of b"]]]
    assert [array.after for array in arrays[1:]] == [[arrays[0].tasks[0]], [arrays[0].tasks[1]]]


def test_tasks_that_run_already_are_waited_for() -> None:
    a = Images("a")
    score = Images("score", needs=(a,))
    (array,) = pack_all(works(score), running={a.id: "running"})
    assert array.after == ["running"]
    (array,) = pack_all(works(a), locked={a.id: "same work"})
    assert array.after == ["same work"]


def test_arrays_are_no_larger_than_slurm_allows() -> None:
    arrays = pack_all(works(*(Images(str(number)) for number in range(LARGEST + 3))))
    assert [len(array.tasks) for array in arrays] == [LARGEST, 3]
