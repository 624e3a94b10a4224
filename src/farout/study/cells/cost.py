"""Cost cell: seconds that a detector takes, measured once and stored; no other result depends on it."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farout.study.cells.cell import Arrays, Cell, Chunk, Job, Progress, Record, SingleJob, Work
from farout.study.sources.images import ImageSource
from farout.study.store import Store
from farout.study.subjects.subject import Score, Subject

BATCH = 64
REPEATS = 5
"""Measured batches, after one that is not counted."""
PER = 10_000
"""Images that the time is given for."""


@dataclass(frozen=True)
class CostCell(Cell):
    """Seconds that one detector takes for a batch of images, on one device."""

    subject: Subject
    images: ImageSource
    device: str
    machine: str = ""
    """Name of the machines that measure; empty for this one."""

    @cached_property
    def identity(self) -> Any:
        about = self.images.about
        device = f"{self.device} on {self.machine}" if self.machine else device_name(torch.device(self.device))
        measured = {"device": device, "shape": list(about.shape), "images": about.total}
        return {"kind": "cost", "version": 1, "subject": self.subject.identity(), **measured}

    @property
    def requires(self) -> tuple[Cell, ...]:
        return (*self.subject.requires, *self.images.requires)

    @property
    def title(self) -> str:
        return f"time {self.subject.title}"

    @property
    def suspect(self) -> str:
        return self.subject.title

    def work(self, cells: Sequence[Any]) -> Work:
        return CostWork(tuple(cells))


class CostWork(Work):
    """Work on one measurement: a single chunk."""

    @property
    def portable(self) -> bool:
        return bool(self.cells[0].subject.portable and self.cells[0].images.portable)

    @cached_property
    def roles(self) -> dict[str, int]:
        return {"test": (1 + REPEATS) * self.cells[0].images.about.total}

    @cached_property
    def chunks(self) -> list[Chunk]:
        return [Chunk("test", 0, self.roles["test"])]

    def prepare(self, store: Store, device: torch.device) -> Job:
        return CostJob(self.cells[0], store, device)


class CostJob(SingleJob[CostCell]):
    """Scores the same batch several times."""

    def __init__(self, cell: CostCell, store: Store, device: torch.device) -> None:
        self.cell, self.store, self.device = cell, store, device
        self.seconds = np.empty(0)

    def run(self, chunk: Chunk, progress: Progress) -> Arrays:
        images = self.cell.images.open(self.store).batch(range(self.cell.images.about.total)).to(self.device)
        score = self.cell.subject.open([self.cell.subject], self.store, self.device)
        measured = []
        for _ in range(1 + REPEATS):
            measured.append(_seconds(score, images, self.device))
            progress(len(images))
        return {"seconds": np.array(measured[1:]) * PER / len(images)}

    def collect(self, chunk: Chunk, results: Arrays) -> None:
        self.seconds = results["seconds"]

    def complete(self, chunk: Chunk, results: Arrays) -> bool:
        return "seconds" in results

    def record(self) -> Record:
        shared, own = self.seconds[self.seconds.sum(1).argmin()].tolist()
        facts = {"per_10000": shared + own, "per_10000_without_pass": own, "device": device_name(self.device)}
        return Record(facts, {})


def _seconds(score: Score, images: Tensor, device: torch.device) -> tuple[float, float]:
    """Return the seconds of the shared forward pass, and of the detector itself."""
    began = _now(device)
    (ask,) = score(images)
    passed = _now(device)
    ask()
    return passed - began, _now(device) - passed


def _now(device: torch.device) -> float:
    """Return the time, once all work on the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def device_name(device: torch.device) -> str:
    """Return the name of a device: the processor's, or the graphics card's."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    file = Path("/proc/cpuinfo")
    lines = file.read_text(errors="replace").splitlines() if file.is_file() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    model = next(iter(models), platform.processor() or platform.machine())
    return model if device.type == "cpu" else f"{device} on {model}"
