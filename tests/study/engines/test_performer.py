"""Collecting stored chunks: complete ones first, whatever their order, and few of them in memory at a time."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from farout.study.cells.cell import Chunk
from farout.study.engines.performer import Performer
from farout.study.store import Store

CHUNKS = [Chunk("test", start, start + 64) for start in range(0, 640, 64)]
WORK: Any = SimpleNamespace(id="0" * 40, chunks=CHUNKS, cells=[SimpleNamespace(title="score toy")])


class Results(dict[str, Any]):
    """Results of a chunk that can be watched."""

    __hash__ = object.__hash__  # type: ignore[assignment]


class Parts(Store):
    """Store whose parts are made when they are read: which chunks, and whether all cells are in them."""

    def __init__(self, root: Path, parts: list[tuple[Chunk, bool]]) -> None:
        super().__init__(root)
        self.made, self.alive = parts, weakref.WeakSet[Results]()
        self.most = 0

    def parts(self, work: str) -> Iterator[tuple[str, Any]]:
        for number, (chunk, whole) in enumerate(self.made):
            results = Results(whole=whole, number=number)
            self.alive.add(results)
            gc.collect()
            self.most = max(self.most, len(self.alive))
            yield str(chunk), results


class Job:
    def __init__(self) -> None:
        self.collected: dict[str, int] = {}

    def complete(self, chunk: Chunk, results: Any) -> bool:
        return bool(results["whole"])

    def collect(self, chunk: Chunk, results: Any) -> None:
        assert str(chunk) not in self.collected
        self.collected[str(chunk)] = results["number"]


def collected(parts: list[tuple[Chunk, bool]], root: Path) -> tuple[dict[str, int], int]:
    store, job = Parts(root, parts), Job()
    Performer(store, torch.device("cpu"))._collect(WORK, job)  # type: ignore[arg-type]
    return job.collected, store.most


def test_a_complete_chunk_is_preferred_before_and_after_one_in_which_a_cell_failed(tmp_path: Path) -> None:
    first, second, *rest = CHUNKS
    parts = [(first, False), (first, True), (second, True), (second, False), *((chunk, True) for chunk in rest)]
    found, _ = collected(parts, tmp_path)
    assert (found[str(first)], found[str(second)]) == (1, 2)
    assert len(found) == len(CHUNKS)


def test_chunks_in_which_a_cell_failed_are_not_held_in_memory(tmp_path: Path) -> None:
    found, most = collected([(chunk, False) for chunk in CHUNKS], tmp_path)
    assert len(found) == len(CHUNKS)
    assert most <= 2, "the one that is read, and the one before"


def test_a_chunk_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the stored results of chunk test-0-64 are gone"):
        collected([(chunk, True) for chunk in CHUNKS[1:]], tmp_path)
