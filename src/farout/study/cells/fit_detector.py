"""Fit cell of a detector that reads images: fitted once for all processes, protocols and later runs."""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farout.core import Detector
from farout.detectors.catalog import create_any
from farout.detectors.fitted_state import (
    CHECK_IMAGES,
    NotSerializable,
    accepted_arguments,
    capture,
    fit,
    has_fit,
    restore,
)
from farout.detectors.trained.detector import TrainedDetector
from farout.identity import Json, describe
from farout.networks.base import seeded
from farout.rng import seed_of
from farout.study.cells.cell import Arrays, Cell, Chunk, Job, Progress, Record, SingleJob, Work
from farout.study.cells.train import TrainingProgress
from farout.study.sources.images import ImageSource
from farout.study.spec import DetectorSpec
from farout.study.store import Store, array_file
from farout.training import resumable
from farout.training.loop import VERSION

CPU = torch.device("cpu")
STATE = "state.safetensors"
WHY = "why"
"""Key of the text on why a state cannot be stored."""


@dataclass(frozen=True)
class DetectorFitCell(Cell):
    """Detector that reads images, fitted on the inliers."""

    label: str
    spec: DetectorSpec
    own: Json
    """Description of the detector, see `description`."""
    splits: tuple[tuple[str, ImageSource], ...]
    """Images to fit it on: train, and those of the other splits that its `fit` accepts."""
    seed: int | None
    """None if its `fit` accepts none."""

    @cached_property
    def identity(self) -> Any:
        images = {name: source.about.fingerprint for name, source in self.splits}
        version = [VERSION, 2]  # 2: created and fitted with seeded global generators
        return {"kind": "detector", "version": version, "detector": self.own, "images": images, "seed": self.seed}

    @property
    def requires(self) -> tuple[Cell, ...]:
        return tuple(cell for _, source in self.splits for cell in source.requires)

    @property
    def title(self) -> str:
        return f"fit {self.label}"

    @property
    def suspect(self) -> str:
        return self.label

    def work(self, cells: Sequence[Any]) -> Work:
        return DetectorFitWork(tuple(cells))

    def make(self, seed: int | None = None) -> Detector:
        """Return a new unfitted detector. Without a seed, it draws other numbers than the one that `fit` creates, so
        that all that is drawn counts as state."""
        with global_seed(seed_of(self.seed or 0, "restore") if seed is None else seed):
            detector = create_any(self.spec.name, **self.spec.params)
        assert isinstance(detector, Detector)
        return detector

    def fit(self, store: Store, device: torch.device = CPU) -> tuple[Detector, Tensor | None]:
        """Return a fitted detector and a few training images; an unfitted one and None without training images.

        The global generators are seeded, so that a detector that uses them is the same in any process, and a training
        interrupted in another process resumes.
        """
        seed = self.seed or 0
        detector, images = self.make(seed), {name: source.open(store) for name, source in self.splits}
        train = images.pop("train", None)
        if train is None:
            if describe(detector) != self.own and not is_random(self.own):
                raise RuntimeError(f"{self.label} has changed since the run was planned; run again")
            return detector, None
        with global_seed(seed):
            fit(detector, train, **images, **({} if self.seed is None else {"seed": self.seed}), device=device)
        return detector, train.batch(np.arange(min(CHECK_IMAGES, len(train))))

    def kept(self, store: Store) -> bool:
        """Return True if the store holds its state."""
        return bool(store.facts(self.id)["kept"])

    def fitted(self, store: Store) -> Detector:
        """Return the detector with its stored state; if its state cannot be stored, fit it in this process."""
        if self.kept(store):
            return restore(self.make(), store.arrays(self.id, STATE))
        return self.fit(store)[0]


@contextmanager
def global_seed(seed: int) -> Iterator[None]:
    """Seed the global generators of Python, numpy and torch within the block, and restore their states afterwards."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        with seeded(seed):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


def build_fit_cell(
    label: str, spec: DetectorSpec, own: Json, make: Callable[[], Detector], splits: dict[str, ImageSource], seed: int
) -> DetectorFitCell | None:
    """Return the cell that creates and fits a detector once.

    Return None if every process would create the same detector: it is not fitted, and nothing in it is random or read
    from a file.
    """
    detector = make()
    if not has_fit(detector) or "train" not in splits:
        drawn = is_random(own) or isinstance(detector, TrainedDetector)
        return DetectorFitCell(label, spec, own, (), None) if drawn else None
    accepted = accepted_arguments(detector)
    used = tuple((name, source) for name, source in splits.items() if name == "train" or name in accepted)
    return DetectorFitCell(label, spec, own, used, seed if "seed" in accepted else None)


DRAWN = "drawn"
"""Key of the names of attributes that differ between two objects of a detector."""


def description(make: Callable[[], Detector]) -> Json | None:
    """Return the description of a detector, as `describe` does, without attributes that are initialized at random.

    Random attributes are not part of the identity: one object is created, and its state is stored.
    """
    first, second = describe(make()), describe(make())
    if first == second or not (isinstance(first, dict) and isinstance(second, dict) and "holds" in first):
        return first
    equal = {name: value for name, value in first["holds"].items() if second["holds"].get(name) == value}
    return {**first, "holds": equal, DRAWN: sorted(first["holds"].keys() - equal.keys())}


def is_random(own: Json) -> bool:
    """Return True if objects of this description have attributes that are initialized at random."""
    return isinstance(own, dict) and DRAWN in own


class DetectorFitWork(Work):
    """Work on one fit: a single chunk without time limit."""

    limited = False

    @property
    def portable(self) -> bool:
        return all(source.portable for _, source in self.cells[0].splits)

    @cached_property
    def roles(self) -> dict[str, int]:
        return {"fit": sum(source.about.total for _, source in self.cells[0].splits) or 1}

    @cached_property
    def chunks(self) -> list[Chunk]:
        return [Chunk("fit", 0, self.roles["fit"])]

    def prepare(self, store: Store, device: torch.device) -> Job:
        return DetectorFitJob(self.cells[0], store, device, self.id)


class DetectorFitJob(SingleJob[DetectorFitCell]):
    """Fits the detector and captures its state."""

    def __init__(self, cell: DetectorFitCell, store: Store, device: torch.device, work: str) -> None:
        self.cell, self.store, self.device, self.work = cell, store, device, work
        self.results: Arrays = {}

    def run(self, chunk: Chunk, progress: Progress) -> Arrays:
        with resumable(self.store.scratch(self.work), TrainingProgress(chunk.stop, progress)):
            detector, images = self.cell.fit(self.store, self.device)
        try:
            return capture(detector, self.cell.make, images)
        except NotSerializable as error:
            return {WHY: np.frombuffer(str(error).encode(), np.uint8)}

    def collect(self, chunk: Chunk, results: Arrays) -> None:
        self.results = results

    def complete(self, chunk: Chunk, results: Arrays) -> bool:
        return bool(results)

    def record(self) -> Record:
        if WHY not in self.results:
            return Record({"kept": True}, {STATE: array_file(self.results)})
        reason = self.results[WHY].tobytes().decode()
        logging.getLogger("farout").warning(
            f"{self.cell.label}: its fitted state cannot be stored ({reason}); one process fits it again and scores "
            "everything, and all its results are computed again if some are missing"
        )
        return Record({"kept": False, "why": reason, "fit": uuid.uuid4().hex}, {})  # equal to no other fit
