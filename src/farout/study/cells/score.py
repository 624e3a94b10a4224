"""Score cell: scores one image set by one detector; cells of the same images and network share a forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.core import ImageSet
from farout.identity import digest
from farout.scores import NonFiniteScores, finite
from farout.study.cells.batches import BATCH, Batches, SmallestBatch
from farout.study.cells.cell import Arrays, Cell, Chunk, Job, Progress, Record, Work
from farout.study.cells.errors import attempt, decode_error, encode_error, error_key
from farout.study.engines import activity
from farout.study.sources.images import ImageSource
from farout.study.store import Store, array_file, score_table
from farout.study.subjects.subject import Ask, Score, Subject
from farout.study.thumbnails import EXAMPLES, thumbnails


@dataclass(frozen=True)
class ScoreCell(Cell):
    """Scores of one image set by one detector."""

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
        return score_group(self.subject, self.images)

    @property
    def title(self) -> str:
        return f"score {self.images.about.name} by {self.subject.network or self.subject.label}"

    @property
    def suspect(self) -> str:
        return self.subject.title

    def work(self, cells: Sequence[Any]) -> Work:
        return ScoreWork(tuple(cells))

    def record(self, scores: NDArray[np.float64], images: ImageSet) -> Record:
        """Return the record: scores, labels and attributes, and the images with the lowest and highest scores."""
        scores = finite(scores, self.subject.label, images.name)
        columns: Arrays = {"index": images.index, "score": scores}
        if images.labels is not None:
            columns["label"] = images.labels
        columns |= {f"attribute:{name}": values for name, values in images.attributes.items()}
        files = {"scores.parquet": score_table(columns), "examples.safetensors": array_file(_examples(scores, images))}
        return Record({"images": len(scores)}, files)


def score_group(subject: Subject, images: ImageSource) -> str:
    """Return the group of the cells that share one pass of these images through the same network."""
    return digest(["scores", subject.group, images.about.fingerprint])


def batch_key(cell: Cell) -> str:
    """Return the key under which a chunk's results hold the batch of a cell for which memory ran out."""
    return f"{BATCH}:{cell.id}"


def _examples(scores: NDArray[np.float64], images: ImageSet) -> Arrays:
    """Return thumbnails of the images with the lowest and the highest scores, the most extreme first."""
    order = np.argsort(scores, kind="stable")
    lowest, highest = order[:EXAMPLES], order[::-1][:EXAMPLES]
    return {
        "lowest": lowest,
        "highest": highest.copy(),
        "lowest_images": thumbnails(images.batch(lowest)),
        "highest_images": thumbnails(images.batch(highest)),
    }


class ScoreWork(Work):
    """Work on one image set: scored by all detectors that share a forward pass, and classified by their network."""

    @property
    def portable(self) -> bool:
        return bool(self.cells[0].subject.portable and self.cells[0].images.portable)

    @cached_property
    def roles(self) -> dict[str, int]:
        return {"test": self.cells[0].images.about.total}

    def prepare(self, store: Store, device: torch.device) -> Job:
        return ScoreJob(self, store, device)


class ScoreJob(Job):
    """Scores chunk by chunk; a detector that fails does not affect the others."""

    def __init__(self, work: ScoreWork, store: Store, device: torch.device) -> None:
        self.cells: tuple[ScoreCell, ...] = work.cells  # or prediction cells, which have the same methods
        self.images = self.cells[0].images.open(store)
        self.store, self.device = store, device
        self.errors: dict[str, str] = {}
        self.batches = Batches(self.cells[0].title)
        self.own = {cell.id: Batches(f"{cell.title}: {cell.suspect}") for cell in self.cells}
        self.smallest = {cell.id: SmallestBatch() for cell in self.cells}

    @cached_property
    def score(self) -> Score:
        """The detectors, loaded by the first chunk: a process that only collects results does not need them."""
        return self.cells[0].subject.open([cell.subject for cell in self.cells], self.store, self.device)

    @cached_property
    def scores(self) -> Arrays:
        """Collected scores by cell; a process that only computes chunks does not need them."""
        return {cell.id: np.full(len(self.images), np.nan) for cell in self.cells}

    def complete(self, chunk: Chunk, results: Arrays) -> bool:
        return all(cell.id in results for cell in self.cells)

    def run(self, chunk: Chunk, progress: Progress) -> Arrays:
        batch = self.images.batch(range(chunk.start, chunk.stop))
        parts = self.batches.map(len(batch), lambda part: self._score(batch[part]))
        results: Arrays = {}
        for cell in self.cells:
            if error := next((part[cell.id] for part in parts if isinstance(part[cell.id], str)), None):
                results[error_key(cell.id)] = encode_error(str(error))
            else:
                results[cell.id] = np.concatenate([np.asarray(part[cell.id]) for part in parts])
                if sizes := [one.most for one in (self.batches, self.own[cell.id]) if one.most is not None]:
                    results[batch_key(cell)] = np.array(min(sizes))
        progress(len(batch))
        return results

    def _score(self, batch: Tensor) -> dict[str, NDArray[np.float64] | str]:
        """Return the scores of a batch by cell, or the traceback of the cell's error."""
        found: dict[str, NDArray[np.float64] | str] = {}
        for position, (cell, ask) in enumerate(zip(self.cells, self.score(batch), strict=True)):
            with activity.computing(cell):
                found[cell.id] = attempt(partial(self._ask, position, ask, batch))
        return found

    def _ask(self, position: int, ask: Ask, batch: Tensor) -> NDArray[np.float64]:
        """Return one detector's scores; one that runs out of memory is asked again about smaller batches."""
        own = self.own[self.cells[position].id]

        def scores(part: slice) -> NDArray[np.float64]:
            whole = part == slice(0, len(batch))
            return (ask if whole else self.score(batch[part])[position])()

        return np.concatenate(own.map(len(batch), scores))

    def collect(self, chunk: Chunk, results: Arrays) -> None:
        for cell in self.cells:
            if batch_key(cell) in results:
                self.smallest[cell.id].see({BATCH: results[batch_key(cell)]})
            if cell.id in results:
                self.scores[cell.id][chunk.start : chunk.stop] = results[cell.id]
            else:
                self.errors.setdefault(cell.id, decode_error(results[error_key(cell.id)]))

    def finish(self) -> Iterator[tuple[str, Record | str]]:
        return ((cell.id, self._record(cell)) for cell in self.cells)

    def _record(self, cell: ScoreCell) -> Record | str:
        if cell.id in self.errors:
            return self.errors[cell.id]
        return attempt(partial(self._checked_record, cell))

    def _checked_record(self, cell: ScoreCell) -> Record | str:
        try:
            return self.smallest[cell.id].noted(cell.record(self.scores[cell.id], self.images))
        except NonFiniteScores as error:
            return f"{type(error).__name__}: {error}"
