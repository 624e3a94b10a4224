"""Durability of results under a power cut: numbers of fsyncs, and their order relative to the renames."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch

from farout.data.memo import remembered
from farout.progress import Event, silent
from farout.study.cells.cell import Arrays, Cell, Chunk, Job, Progress, Record, Work
from farout.study.engines import scheduler as scheduling
from farout.study.engines.executor import Context
from farout.study.engines.inline import InlineExecutor
from farout.study.engines.journal import Journal
from farout.study.engines.scheduler import Scheduler
from farout.study.store import Store, array_file

FILES = {"a.safetensors": array_file({"a": np.ones(3)}), "b.safetensors": array_file({"b": np.ones(3)})}
Renamed = Callable[[Path, Path], None]


class Disk:
    """Flushes of files and folders, by inode, and what is asked whenever a file or folder is renamed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: list[int] = []
        self.renamed: Renamed = lambda source, target: None
        fsync = os.fsync

        def counting(handle: int) -> None:
            fsync(handle)
            self.synced.append(os.fstat(handle).st_ino)

        monkeypatch.setattr(os, "fsync", counting)
        for name in ("rename", "replace"):
            monkeypatch.setattr(os, name, self._watching(getattr(os, name)))

    def _watching(self, original: Callable[..., None]) -> Callable[..., None]:
        def rename(source: Any, target: Any) -> None:
            self.renamed(Path(source), Path(target))
            original(source, target)

        return rename

    def flushed(self, path: Path) -> bool:
        return path.stat().st_ino in self.synced


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "run").open()


def test_a_record_is_on_disk_with_all_its_files_before_it_has_its_name(store: Store, disk: Disk) -> None:
    before: dict[str, bool] = {}

    def renamed(source: Path, target: Path) -> None:
        if target == store.path("cell"):
            before.update({path.name: disk.flushed(path) for path in (*source.iterdir(), source)})

    disk.renamed = renamed
    store.write("cell", {"images": 3}, FILES)
    assert len(before) == 4
    assert before.keys() > {*FILES, "record.json"}
    assert all(before.values()), before
    assert disk.synced[-1] == (store.root / "cells").stat().st_ino, "then the new name"
    assert len(disk.synced) == 5, "two files, the record, their folder, and the folder of all records"


@dataclass(frozen=True)
class Stored(Cell):
    """Cell whose record has two files."""

    number: int
    group = "0" * 40
    title = "stored"

    @property
    def identity(self) -> Any:
        return ["stored", self.number]

    def work(self, cells: Any) -> Work:
        return StoredWork(tuple(cells))


class StoredWork(Work):
    portable = False
    roles = MappingProxyType({"test": 3 * 64})  # type: ignore[assignment]

    def prepare(self, store: Store, device: torch.device) -> Job:
        return StoredJob(self.cells)


class StoredJob(Job):
    def __init__(self, cells: tuple[Any, ...]) -> None:
        self.cells, self.chunks = cells, 0

    def run(self, chunk: Chunk, progress: Progress) -> Arrays:
        return {"x": np.arange(chunk.start, chunk.stop)}

    def collect(self, chunk: Chunk, results: Arrays) -> None:
        assert results["x"].tolist() == list(range(chunk.start, chunk.stop))
        self.chunks += 1

    def complete(self, chunk: Chunk, results: Arrays) -> bool:
        return "x" in results

    def finish(self) -> Iterator[tuple[str, Record | str]]:
        assert self.chunks == 3
        for cell in self.cells:
            yield cell.id, Record({}, FILES)


@pytest.mark.parametrize(("seconds", "of_parts"), [(3600.0, 0), (-1.0, 3)])
def test_the_names_of_all_records_of_a_work_are_durable_when_it_is_told_to_be_finished(
    store: Store, disk: Disk, monkeypatch: pytest.MonkeyPatch, seconds: float, of_parts: int
) -> None:
    monkeypatch.setattr(scheduling, "FLUSH_SECONDS", seconds)
    cells = [Stored(number) for number in range(5)]
    work, at_end = cells[0].work(cells), []
    scheduler = Scheduler([work], store, torch.device("cpu"), silent, set())
    finished, context = scheduler.finished, Context(scheduler, store, torch.device("cpu"), store.running())

    def told(number: int, failed: Any) -> None:
        at_end.extend(disk.synced)
        finished(number, failed)

    scheduler.finished = told  # type: ignore[method-assign]
    executor = InlineExecutor(context)
    scheduler.run(executor, executor)
    assert all(store.has(cell.id) for cell in cells)
    assert at_end[-1] == (store.root / "cells").stat().st_ino
    assert len(at_end) == of_parts + 4 * 5 + 1, "parts that hold longer work; four of each record; the names of all"


def test_parts_of_work_that_goes_on_are_durable_and_states_always_are(store: Store, disk: Disk) -> None:
    store.put_part("work", {"test-0-64": {"x": np.ones(3)}})
    store.keep("work", "state", {"x": np.ones(3)})
    assert len(disk.synced) == 2
    assert all(disk.flushed(path) for path in (store.root / "partial" / "work").iterdir())
    store.put_part("work", {"test-64-128": {"x": np.ones(3)}}, durable=False)
    assert len(disk.synced) == 2
    assert {name for name, _ in store.parts("work")} == {"test-0-64", "test-64-128"}


def test_progress_and_what_can_be_worked_out_again_do_not_wait_for_the_disk(
    store: Store, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAROUT_DATA", str(tmp_path / "cache"))
    path = tmp_path / "progress.json"
    Journal(path, silent)(Event("title", 3, 10))
    assert '"done": 3' in path.read_text()
    assert remembered("kind", ["key"], lambda: 5) == 5
    assert remembered("kind", ["key"], lambda: 6) == 5
    assert disk.synced == []
