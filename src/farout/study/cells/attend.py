"""Attention cell: measures how far an attack moves a network's attention maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from farout.attention import attention_shift
from farout.networks.mode import PLAIN
from farout.networks.network import Network
from farout.study.cells.attack import AttackCell
from farout.study.cells.batches import Batches, SmallestBatch, joined
from farout.study.cells.cell import Arrays, Cell, Chunk, Job, Progress, Record, SingleJob, Work
from farout.study.sources.attacked import AttackedImages
from farout.study.sources.networks import NetworkSource
from farout.study.store import Store, array_file, score_table
from farout.study.thumbnails import EXAMPLES, thumbnails
from farout.tensors import as_images

COLUMNS = ("l2", "ssim")


@dataclass(frozen=True)
class AttentionCell(Cell):
    """L2 distance and SSIM between the attention maps of every image before and after an attack."""

    images: AttackedImages

    @property
    def attack(self) -> AttackCell:
        """The cell of the attack."""
        return self.images.attack

    @property
    def network(self) -> NetworkSource:
        """The attacked classifier."""
        assert self.attack.network is not None
        return self.attack.network

    @cached_property
    def identity(self) -> Any:
        return {"kind": "attention", "version": 1, "images": self.images.about.fingerprint}

    @property
    def requires(self) -> tuple[Cell, ...]:
        return self.images.requires

    @property
    def title(self) -> str:
        return f"attention of {self.network.label} under {self.attack.attack.label}"

    def work(self, cells: Sequence[Any]) -> Work:
        return AttentionWork(tuple(cells))


class AttentionWork(Work):
    """Work on the images of one attack."""

    @cached_property
    def portable(self) -> bool:
        portable: bool = self.cells[0].images.portable
        return portable

    @cached_property
    def roles(self) -> dict[str, int]:
        return {"test": self.cells[0].attack.images.about.total}

    def prepare(self, store: Store, device: torch.device) -> Job:
        return AttentionJob(self.cells[0], store, device)


class AttentionJob(SingleJob[AttentionCell]):
    """Compares attention maps chunk by chunk; stores example maps for the report."""

    def __init__(self, cell: AttentionCell, store: Store, device: torch.device) -> None:
        self.cell, self.store, self.device = cell, store, device
        self.before = cell.attack.images.open(store)
        self.after = cell.images.open(store)
        self.batches, self.smallest = Batches(cell.title), SmallestBatch()
        self.columns = {name: np.full(len(self.before), np.nan) for name in COLUMNS}

    @cached_property
    def network(self) -> Network:
        """The attacked classifier, loaded by the first chunk: a process that only collects results does not need it.

        In float32 and not compiled, since compiled code skips the hooks of inner layers.
        """
        return self.cell.network.build(self.store).running(PLAIN).to(self.device)

    def run(self, chunk: Chunk, progress: Progress) -> Arrays:
        order = range(chunk.start, chunk.stop)
        parts = self.batches.map(len(order), lambda part: self._moved(order[part]))
        progress(len(order))
        return joined(parts) | self.batches.note

    def _moved(self, order: range) -> Arrays:
        moved = attention_shift(self.network, *(as_images(s.batch(order), self.device) for s in self._sets))
        return {name: getattr(moved, name).double().cpu().numpy() for name in COLUMNS}

    @property
    def _sets(self) -> tuple[Any, Any]:
        return self.before, self.after

    def collect(self, chunk: Chunk, results: Arrays) -> None:
        results = self.smallest.see(results)
        for name in COLUMNS:
            self.columns[name][chunk.start : chunk.stop] = results[name]

    def complete(self, chunk: Chunk, results: Arrays) -> bool:
        return set(COLUMNS) <= results.keys()

    def record(self) -> Record:
        columns = {"index": self.before.index, **self.columns}
        columns |= {name: self.after.attributes[name] for name in ("clean_correct", "success")}
        files = {"scores.parquet": score_table(columns), "examples.safetensors": array_file(self._examples())}
        return self.smallest.noted(Record({"images": len(self.before)}, files))

    def _examples(self) -> Arrays:
        """Return thumbnails of the successfully attacked images whose attention moves most, and least."""
        succeeded = np.flatnonzero(self.after.attributes["clean_correct"] & self.after.attributes["success"])
        order = succeeded[np.argsort(-self.columns["l2"][succeeded], kind="stable")]
        examples: Arrays = {}
        for kind, indices in (("most", order[:EXAMPLES]), ("least", order[::-1][:EXAMPLES].copy())):
            before, after = (as_images(images.batch(indices), self.device) for images in self._sets)
            examples |= {kind: indices, f"{kind}_before": thumbnails(before), f"{kind}_after": thumbnails(after)}
            if len(indices):
                moved = attention_shift(self.network, before, after)
                maps = {"before": moved.before, "after": moved.after}
                examples |= {f"{kind}_map_{when}": thumbnails(one[:, None]) for when, one in maps.items()}
        return examples
