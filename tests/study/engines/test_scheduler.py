"""Scheduler with executors that record its calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from farout.progress import silent
from farout.study.cells.cell import Cell, Job, Work
from farout.study.engines.executor import Executor, Task
from farout.study.engines.scheduler import Scheduler
from farout.study.store import Store


@dataclass(frozen=True)
class Images(Cell):
    """Cell without a computation."""

    portable: bool
    images: int

    @property
    def identity(self) -> Any:
        return ["images", self.portable]

    title = "images"

    def work(self, cells: Sequence[Any]) -> Work:
        return Chunks(tuple(cells))


class Chunks(Work):
    @property
    def portable(self) -> bool:
        return bool(self.cells[0].portable)

    @property
    def roles(self) -> dict[str, int]:  # type: ignore[override]
        return {"test": self.cells[0].images}

    def prepare(self, store: Store, device: torch.device) -> Job:
        raise NotImplementedError


class Recording(Executor):
    """Executor that reports one task per call of `wait`; `calls` are those of all executors, in order."""

    slots = 1

    def __init__(self, name: str, calls: list[tuple[str, float]]) -> None:
        self.label, self.calls, self.tasks = name, calls, deque[Task]()
        self.listener: Any = None

    def submit(self, task: Task) -> None:
        self.tasks.append(task)

    def wait(self, seconds: float) -> None:
        self.calls.append((self.label, seconds))
        task = self.tasks.popleft()
        if task.chunk is None:
            self.listener.finished(task.number, {})
        else:
            self.listener.computed(task.number, {})

    def cancel(self, numbers: Collection[int]) -> None: ...

    def close(self, stopped: bool) -> None: ...


def test_the_engine_does_not_block_while_this_process_has_tasks(tmp_path: Path) -> None:
    cells = [Images(portable=False, images=64), Images(portable=True, images=64 * 4)]
    store = Store(tmp_path).open()
    scheduler = Scheduler([cell.work([cell]) for cell in cells], store, torch.device("cpu"), silent, set())
    calls: list[tuple[str, float]] = []
    inline, engine = Recording("inline", calls), Recording("engine", calls)
    inline.listener = engine.listener = scheduler
    scheduler.run(inline, engine)
    here, there = [[seconds for label, seconds in calls if label == name] for name in ("inline", "engine")]
    assert len(here) == 2  # one chunk, and its records
    assert there == [0.0, 0.0, *there[2:]]
    assert len(there) == 5
    assert min(there[2:]) > 0
    assert set(scheduler.done) == {cell.id for cell in cells}
