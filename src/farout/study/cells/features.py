"""Features cell: the penultimate features of an image set, for distances between sets (FID, nearest neighbors)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.networks import Network
from farout.networks.passes import forward
from farout.study.cells.batches import Batches, SmallestBatch, joined
from farout.study.cells.cell import Arrays, Cell, Chunk, Job, Progress, Record, SingleJob, UntimedWork, Work
from farout.study.sources.images import ImageSource
from farout.study.sources.networks import NetworkSource
from farout.study.store import Store, array_file
from farout.study.thumbnails import EXAMPLES, thumbnails

FEATURES = "features.safetensors"


@dataclass(frozen=True)
class FeaturesCell(Cell):
    """Penultimate features of images by one network, with thumbnails of the first images."""

    network: NetworkSource
    images: ImageSource

    @cached_property
    def identity(self) -> Any:
        return {
            "kind": "features",
            "version": 1,
            "network": self.network.identity(),
            "images": self.images.about.fingerprint,
        }

    @property
    def requires(self) -> tuple[Cell, ...]:
        return (*self.network.requires, *self.images.requires)

    @property
    def title(self) -> str:
        return f"features of {self.images.about.name} by {self.network.label}"

    def work(self, cells: Sequence[Any]) -> Work:
        return FeaturesWork(tuple(cells))


def read_features(store: Store, cell: str) -> NDArray[np.float32]:
    """Return the stored features [N, D] of a features cell."""
    return store.arrays(cell, FEATURES)["features"]


class FeaturesWork(UntimedWork):
    """Work on the images of one features cell."""

    @property
    def portable(self) -> bool:
        return bool(self.cells[0].network.portable and self.cells[0].images.portable)

    @cached_property
    def roles(self) -> dict[str, int]:
        return {"images": self.cells[0].images.about.total}

    def prepare(self, store: Store, device: torch.device) -> Job:
        return FeaturesJob(self.cells[0], store, device)


class FeaturesJob(SingleJob[FeaturesCell]):
    """Computes features chunk by chunk."""

    def __init__(self, cell: FeaturesCell, store: Store, device: torch.device) -> None:
        self.cell, self.store, self.device = cell, store, device
        self.images = cell.images.open(store)
        self.parts: dict[int, NDArray[Any]] = {}
        self.batches, self.smallest = Batches(cell.title), SmallestBatch()

    @cached_property
    def network(self) -> Network:
        """The network, loaded by the first chunk."""
        return self.cell.network.build(self.store).to(self.device)

    def run(self, chunk: Chunk, progress: Progress) -> Arrays:
        batch = self.images.batch(range(chunk.start, chunk.stop))
        parts = self.batches.map(len(batch), lambda part: self._features(batch[part]))
        progress(len(batch))
        return joined(parts) | self.batches.note

    def _features(self, batch: Tensor) -> Arrays:
        features = forward(self.network, batch, frozenset({"features"})).features
        return {"features": features.float().cpu().numpy()}

    def collect(self, chunk: Chunk, results: Arrays) -> None:
        self.parts[chunk.start] = self.smallest.see(results)["features"]

    def complete(self, chunk: Chunk, results: Arrays) -> bool:
        return "features" in results

    def record(self) -> Record:
        features = np.concatenate([self.parts[start] for start in sorted(self.parts)])
        if not np.isfinite(features).all():
            raise ValueError(f"{self.cell.title}: some features are not finite numbers")
        first = self.images.batch(np.arange(min(EXAMPLES, len(self.images))))
        files = {
            FEATURES: array_file({"features": features}),
            "examples.safetensors": array_file({"first_images": thumbnails(first)}),
        }
        facts = {"images": len(features), "network": self.cell.network.label}
        return self.smallest.noted(Record(facts, files))
