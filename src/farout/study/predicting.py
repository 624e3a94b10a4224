"""The cell that asks a network for the classes of an image set: is it fooled by what was made for another one?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from farout.detectors.passes import forward
from farout.networks.network import Network
from farout.study.cell import Arrays, Cell, Chunk, Job, Progress, Record, SingleJob, Work
from farout.study.sources import ImageSource, NetworkSource
from farout.study.store import Store, score_table


@dataclass(frozen=True)
class PredictCell(Cell):
    """The class of every image as a network sees it."""

    network: NetworkSource
    images: ImageSource

    @cached_property
    def identity(self) -> Any:
        return {
            "kind": "predictions",
            "version": 1,
            "network": self.network.identity(),
            "images": self.images.about.fingerprint,
        }

    @property
    def requires(self) -> tuple[Cell, ...]:
        return (*self.network.requires, *self.images.requires)

    @property
    def title(self) -> str:
        return f"classify {self.images.about.name} by {self.network.label}"

    def work(self, cells: Sequence[Any]) -> Work:
        return PredictWork(tuple(cells))


class PredictWork(Work):
    """One pass over one image set."""

    @property
    def portable(self) -> bool:
        return bool(self.cells[0].network.portable and self.cells[0].images.portable)

    @cached_property
    def roles(self) -> dict[str, int]:
        return {"test": self.cells[0].images.about.total}

    def prepare(self, store: Store, device: torch.device) -> Job:
        return PredictJob(self.cells[0], store, device)


class PredictJob(SingleJob[PredictCell]):
    """Predicts chunk by chunk."""

    def __init__(self, cell: PredictCell, store: Store, device: torch.device) -> None:
        self.cell, self.store, self.device = cell, store, device
        self.images = cell.images.open(store)
        self.found = np.zeros(len(self.images), np.int64)

    @cached_property
    def network(self) -> Network:
        """Opened by the first chunk: a process that only collects results does not need it."""
        return self.cell.network.build(self.store).to(self.device)

    def run(self, chunk: Chunk, progress: Progress) -> Arrays:
        batch = self.images.batch(range(chunk.start, chunk.stop))
        logits = forward(self.network, batch, frozenset({"logits"})).logits
        progress(len(batch))
        return {"prediction": logits.argmax(1).cpu().numpy()}

    def collect(self, chunk: Chunk, results: Arrays) -> None:
        self.found[chunk.start : chunk.stop] = results["prediction"]

    def complete(self, chunk: Chunk, results: Arrays) -> bool:
        return "prediction" in results

    def record(self) -> Record:
        columns: Arrays = {"index": np.arange(len(self.found)), "prediction": self.found}
        if self.images.labels is not None:
            columns["label"] = self.images.labels
        return Record({"images": len(self.found)}, {"scores.parquet": score_table(columns)})
