"""The cell that scores one image set by one detector; those that share images and network share the pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from farout.core import NonFiniteScores, finite
from farout.identity import digest
from farout.study.cell import (
    Arrays,
    Cell,
    Chunk,
    Job,
    Progress,
    Record,
    Work,
    attempt,
    decode_error,
    encode_error,
    error_key,
)
from farout.study.engines import activity
from farout.study.sources import ImageSource
from farout.study.store import Store, array_file, score_table
from farout.study.subjects import Score, Subject
from farout.study.thumbnails import EXAMPLES, thumbnails


@dataclass(frozen=True)
class ScoreCell(Cell):
    """The scores of one image set by one detector."""

    subject: Subject
    images: ImageSource

    @cached_property
    def identity(self) -> Any:
        return {
            "kind": "scores",
            "version": 1,
            "subject": self.subject.identity(),
            "images": self.images.about.fingerprint,
        }

    @property
    def requires(self) -> tuple[Cell, ...]:
        return (*self.subject.requires, *self.images.requires)

    @property
    def group(self) -> str:
        return digest(["scores", self.subject.group, self.images.about.fingerprint])

    @property
    def title(self) -> str:
        return f"score {self.images.about.name} by {self.subject.network or self.subject.label}"

    @property
    def suspect(self) -> str:
        return self.subject.title

    def work(self, cells: Sequence[Any]) -> Work:
        return ScoreWork(tuple(cells))


class ScoreWork(Work):
    """One image set, scored by all detectors that share a forward pass."""

    @property
    def portable(self) -> bool:
        return bool(self.cells[0].subject.portable and self.cells[0].images.portable)

    @cached_property
    def roles(self) -> dict[str, int]:
        return {"test": self.cells[0].images.about.total}

    def prepare(self, store: Store, device: torch.device) -> Job:
        return ScoreJob(self, store, device)


class ScoreJob(Job):
    """Scores chunk by chunk; a detector that fails leaves the others be."""

    def __init__(self, work: ScoreWork, store: Store, device: torch.device) -> None:
        self.cells: tuple[ScoreCell, ...] = work.cells
        self.images = self.cells[0].images.open(store)
        self.store, self.device = store, device
        self.errors: dict[str, str] = {}

    @cached_property
    def score(self) -> Score:
        """The scorer, opened by the first chunk: a process that only collects results does not need it."""
        return self.cells[0].subject.open([cell.subject for cell in self.cells], self.store, self.device)

    @cached_property
    def scores(self) -> Arrays:
        """Where results are collected; a process that only computes chunks does not need it."""
        return {cell.id: np.full(len(self.images), np.nan) for cell in self.cells}

    def complete(self, chunk: Chunk, results: Arrays) -> bool:
        return all(cell.id in results for cell in self.cells)

    def run(self, chunk: Chunk, progress: Progress) -> Arrays:
        batch = self.images.batch(range(chunk.start, chunk.stop))
        results: Arrays = {}
        for cell, ask in zip(self.cells, self.score(batch), strict=True):
            with activity.of(cell):
                answer = attempt(ask)
            if isinstance(answer, str):
                results[error_key(cell)] = encode_error(answer)
            else:
                results[cell.id] = answer
        progress(len(batch))
        return results

    def collect(self, chunk: Chunk, results: Arrays) -> None:
        for cell in self.cells:
            if cell.id in results:
                self.scores[cell.id][chunk.start : chunk.stop] = results[cell.id]
            else:
                self.errors.setdefault(cell.id, decode_error(results[error_key(cell)]))

    def finish(self) -> Iterator[tuple[str, Record | str]]:
        return ((cell.id, self._record(cell)) for cell in self.cells)

    def _record(self, cell: ScoreCell) -> Record | str:
        if cell.id in self.errors:
            return self.errors[cell.id]
        try:
            (scores,) = finite({cell.subject.label: self.scores[cell.id]}, self.images.name).values()
        except NonFiniteScores as error:
            return f"{type(error).__name__}: {error}"
        return attempt(partial(self._made, scores))

    def _made(self, scores: NDArray[np.float64]) -> Record:
        columns: Arrays = {"index": np.arange(len(scores)), "score": scores}
        if self.images.labels is not None:
            columns["label"] = self.images.labels
        columns |= {f"attribute:{name}": values for name, values in self.images.attributes.items()}
        files = {"scores.parquet": score_table(columns), "examples.safetensors": array_file(self._examples(scores))}
        return Record({"images": len(scores)}, files)

    def _examples(self, scores: NDArray[np.float64]) -> Arrays:
        """The images with the lowest and the highest scores, small and in 8 bits, each end from its extreme inwards."""
        order = np.argsort(scores, kind="stable")
        lowest, highest = order[:EXAMPLES], order[::-1][:EXAMPLES]
        return {
            "lowest": lowest,
            "highest": highest.copy(),
            "lowest_images": thumbnails(self.images.batch(lowest)),
            "highest_images": thumbnails(self.images.batch(highest)),
        }
