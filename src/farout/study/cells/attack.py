"""Attack cell: attacks images and judges the results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.attacks.attack import Attack
from farout.attacks.judging import Attacked, run_attack
from farout.attacks.target import Target
from farout.detectors.panel.table import Table
from farout.study.cells.batches import Batches, SmallestBatch, joined
from farout.study.cells.cell import Arrays, Cell, Chunk, Job, Progress, Record, SingleJob, Work
from farout.study.sources.images import ImageSource
from farout.study.sources.networks import NetworkSource
from farout.study.store import Store, array_file, score_table
from farout.study.subjects.subject import Subject
from farout.study.thumbnails import EXAMPLES, thumbnails
from farout.tensors import as_images

IMAGES = "images.npy"
JUDGED = tuple(field.name for field in fields(Attacked) if field.name != "images")
"""Columns of the table of attacked images: the fields of `Attacked` other than the images."""


@dataclass(frozen=True)
class AttackCell(Cell):
    """Attacked images with their judgments, stored in full precision."""

    attack: Attack
    images: ImageSource
    network: NetworkSource | None
    """The attacked classifier; None for attacks on a detector alone."""
    subject: Subject | None
    """The attacked detector; None for attacks on a classifier alone."""
    seed: int

    @cached_property
    def identity(self) -> Any:
        return {
            "kind": "attack",
            "version": 1,
            "attack": self.attack.identity(),
            "images": self.images.about.fingerprint,
            "network": self.network and self.network.identity(),
            "subject": self.subject and self.subject.identity(),
            "seed": self.seed,
        }

    @property
    def requires(self) -> tuple[Cell, ...]:
        return tuple(cell for source in (self.network, self.subject, self.images) if source for cell in source.requires)

    @property
    def title(self) -> str:
        return f"attack {self.images.about.name} on {self.on} by {self.attack.label}"

    @property
    def suspect(self) -> str:
        return self.subject.title if self.subject else ""

    @property
    def on(self) -> str:
        """Name of the target: labels of the classifier and the detector."""
        labels = [source.label for source in (self.network, self.subject) if source]
        return " and ".join(labels)

    @property
    def passes(self) -> int:
        """Largest number of passes of one image through the network."""
        return self.attack.passes(self.network.about.classes if self.network else 0)

    def unsuited(self) -> str | None:
        """Return why the network does not suit the attack or the labels, without computing; None if it does."""
        if self.network is None:
            return None
        images = self.images.about.name
        classes, labels = self.network.about.classes, self.images.preview().labels
        if reason := self.attack.unsuited(self.images.about.shape, classes):
            return f"{reason} ({images} on {self.network.label})"
        if labels is None:
            return f"{self.attack.label} attacks a classifier and needs labels: the images of {images} have no labels"
        if len(labels) and not 0 <= labels.min() <= labels.max() < classes:
            return (
                f"the labels of {images} run from {labels.min()} to {labels.max()}, and {self.network.label} has "
                f"{classes} classes (0 to {classes - 1})"
            )
        return None

    def work(self, cells: Sequence[Any]) -> Work:
        return AttackWork(tuple(cells))

    def target(self, store: Store, device: torch.device) -> Target:
        """Return the attack's target, loaded in this process."""
        if self.subject is not None:
            return self.subject.target(store, device)
        assert self.network is not None
        return Target(self.network.build(store).to(device))


class AttackWork(Work):
    """Work on the images of one attack cell."""

    @property
    def cell(self) -> AttackCell:
        """The only cell."""
        cell: AttackCell = self.cells[0]
        return cell

    @cached_property
    def portable(self) -> bool:
        return all(source.portable for source in (self.cell.network, self.cell.subject, self.cell.images) if source)

    @cached_property
    def roles(self) -> dict[str, int]:
        return {"test": self.cell.images.about.total}

    @cached_property
    def _passes(self) -> int:
        return self.cell.passes

    def cost(self, chunk: Chunk) -> int:
        return (chunk.stop - chunk.start) * self._passes

    def prepare(self, store: Store, device: torch.device) -> Job:
        return AttackJob(self, store, device)


class AttackJob(SingleJob[AttackCell]):
    """Attacks chunk by chunk; the random numbers of an image depend only on its position in the set."""

    def __init__(self, work: AttackWork, store: Store, device: torch.device) -> None:
        self.cell, self.work, self.store, self.device = work.cell, work, store, device
        self.images = self.cell.images.open(store)
        self.table = Table(len(self.images))
        self.batches, self.smallest = Batches(self.cell.title), SmallestBatch()

    @cached_property
    def target(self) -> Target:
        """The attack's target, loaded by the first chunk: a process that only collects results does not need it."""
        return self.cell.target(self.store, self.device)

    def run(self, chunk: Chunk, progress: Progress) -> Arrays:
        order = range(chunk.start, chunk.stop)
        images = as_images(self.images.batch(order), self.device)
        labels = torch.zeros(len(images), dtype=torch.int64)
        if self.images.labels is not None:
            labels = torch.from_numpy(self.images.labels[chunk.start : chunk.stop])
        attacked = self.batches.map(
            len(order), lambda part: self._attack(images[part], labels[part], order[part], progress)
        )
        return joined(attacked) | self.batches.note

    def _attack(self, images: Tensor, labels: Tensor, order: range, progress: Progress) -> Arrays:
        attacked = run_attack(self.cell.attack, self.target, images, labels, order, self.cell.seed, progress)
        return {field.name: getattr(attacked, field.name).numpy() for field in fields(attacked)}

    def collect(self, chunk: Chunk, results: Arrays) -> None:
        rows = self.smallest.see(results)
        self.table.put(chunk.start, {name: torch.from_numpy(values) for name, values in rows.items()})

    def complete(self, chunk: Chunk, results: Arrays) -> bool:
        return {field.name for field in fields(Attacked)} <= results.keys()

    def record(self) -> Record:
        columns = {name: self.table.column(name).numpy() for name in JUDGED}
        images = self.table.column("images").numpy()
        files = {
            "scores.parquet": score_table({"index": self.images.index, **columns}),
            IMAGES: lambda path: _save(path, images),
            "examples.safetensors": array_file(self._examples(columns["success"], columns["clean_correct"])),
        }
        return self.smallest.noted(Record({"images": len(images)}, files))

    def _examples(self, success: NDArray[np.bool_], correct: NDArray[np.bool_]) -> Arrays:
        """Return thumbnails of the first images on which the attack succeeded, before and after it."""
        succeeded = np.flatnonzero(success & correct if correct.any() else success)[:EXAMPLES]
        after = self.table.column("images")[torch.from_numpy(succeeded)]
        return {"places": succeeded, "before": thumbnails(self.images.batch(succeeded)), "after": thumbnails(after)}


def _save(path: Path, images: NDArray[np.float32]) -> None:
    np.save(path, images)
