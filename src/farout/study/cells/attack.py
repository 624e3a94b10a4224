"""The cell that attacks images and judges what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from farout.attacks.attack import Attack
from farout.attacks.judging import Attacked, run_attack
from farout.attacks.target import Target
from farout.detectors.panel.table import Table
from farout.study.cells.cell import Arrays, Cell, Chunk, Job, Progress, Record, SingleJob, Work
from farout.study.sources.images import ImageSource
from farout.study.sources.networks import NetworkSource
from farout.study.store import Store, array_file, score_table
from farout.study.subjects.subject import Subject
from farout.study.thumbnails import EXAMPLES, thumbnails
from farout.tensors import as_images

IMAGES = "images.npy"
JUDGED = tuple(field.name for field in fields(Attacked) if field.name != "images")
"""What is known of every attacked image."""


@dataclass(frozen=True)
class AttackCell(Cell):
    """Images attacked once, judged, and kept in full precision."""

    attack: Attack
    images: ImageSource
    network: NetworkSource | None
    """The classifier that must err; None for attacks on a detector alone."""
    subject: Subject | None
    """The detector that is attacked too, or alone."""
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
        return tuple(need for source in (self.network, self.subject, self.images) if source for need in source.requires)

    @property
    def title(self) -> str:
        return f"attack {self.images.about.name} on {self.on} by {self.attack.label}"

    @property
    def suspect(self) -> str:
        return self.subject.title if self.subject else ""

    @property
    def on(self) -> str:
        """What is attacked, for people."""
        labels = [source.label for source in (self.network, self.subject) if source]
        return " and ".join(labels)

    @property
    def passes(self) -> int:
        """How often an image passes the network, at most."""
        return self.attack.passes(self.network.preview().classes if self.network else 0)

    def unsuited(self) -> str | None:
        """Why the network does not suit the attack or the labels, known before the work; None where it does."""
        if self.network is None:
            return None
        images = self.images.about.name
        classes, labels = self.network.preview().classes, self.images.preview().labels
        if reason := self.attack.unsuited(self.images.about.shape, classes):
            return f"{reason} ({images} on {self.network.label})"
        if labels is None:
            return f"{self.attack.label} makes a classifier err, and the images of {images} have no labels"
        if len(labels) and not 0 <= labels.min() <= labels.max() < classes:
            return (
                f"the labels of {images} run from {labels.min()} to {labels.max()}, and {self.network.label} has "
                f"{classes} classes (0 to {classes - 1})"
            )
        return None

    def work(self, cells: Sequence[Any]) -> Work:
        return AttackWork(tuple(cells))

    def target(self, store: Store, device: torch.device) -> Target:
        """What is attacked, as it stands in this process."""
        if self.subject is not None:
            return self.subject.target(store, device)
        assert self.network is not None
        return Target(self.network.build(store).to(device))


class AttackWork(Work):
    """The images of one cell, chunk by chunk."""

    @property
    def cell(self) -> AttackCell:
        """The one cell."""
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
    """Attacks chunk by chunk; an image's fate depends on its place alone."""

    def __init__(self, work: AttackWork, store: Store, device: torch.device) -> None:
        self.cell, self.work, self.store, self.device = work.cell, work, store, device
        self.images = self.cell.images.open(store)
        self.found = Table(len(self.images))

    @cached_property
    def target(self) -> Target:
        """Opened by the first chunk: a process that only collects results does not need it."""
        return self.cell.target(self.store, self.device)

    def run(self, chunk: Chunk, progress: Progress) -> Arrays:
        order = range(chunk.start, chunk.stop)
        images = as_images(self.images.batch(order), self.device)
        labels = torch.zeros(len(images), dtype=torch.int64)
        if self.images.labels is not None:
            labels = torch.from_numpy(self.images.labels[chunk.start : chunk.stop])
        found = run_attack(self.cell.attack, self.target, images, labels, order, self.cell.seed, progress)
        return {field.name: getattr(found, field.name).numpy() for field in fields(found)}

    def collect(self, chunk: Chunk, results: Arrays) -> None:
        self.found.put(chunk.start, {name: torch.from_numpy(rows) for name, rows in results.items()})

    def complete(self, chunk: Chunk, results: Arrays) -> bool:
        return {field.name for field in fields(Attacked)} <= results.keys()

    def record(self) -> Record:
        columns = {name: self.found.column(name).numpy() for name in JUDGED}
        images = self.found.column("images").numpy()
        files = {
            "scores.parquet": score_table({"index": self.images.index, **columns}),
            IMAGES: lambda path: _save(path, images),
            "examples.safetensors": array_file(self._examples(columns["success"], columns["clean_correct"])),
        }
        return Record({"images": len(images)}, files)

    def _examples(self, success: NDArray[np.bool_], correct: NDArray[np.bool_]) -> Arrays:
        """The first images that the attack has turned, as they were and as they are."""
        turned = np.flatnonzero(success & correct if correct.any() else success)[:EXAMPLES]
        now = self.found.column("images")[torch.from_numpy(turned)]
        return {"places": turned, "before": thumbnails(self.images.batch(turned)), "after": thumbnails(now)}


def _save(path: Path, images: NDArray[np.float32]) -> None:
    np.save(path, images)
