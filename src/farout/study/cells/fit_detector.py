"""The cell that fits a detector which reads images: once, for all processes, protocols and later runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farout.core import Detector
from farout.detectors.catalog import create_any
from farout.detectors.fitted_state import CHECK_IMAGES, NotSerializable, accepted_arguments, capture, fit, restore
from farout.identity import Json, describe
from farout.study.cells.cell import Arrays, Cell, Chunk, Job, Progress, Record, SingleJob, Work
from farout.study.cells.train import TrainingProgress
from farout.study.sources.images import ImageSource
from farout.study.spec import DetectorSpec
from farout.study.store import Store, array_file
from farout.training import resumable

STATE = "state.safetensors"
WHY = "why"
"""The result that says why a state cannot be kept."""


@dataclass(frozen=True)
class DetectorFitCell(Cell):
    """A detector of images, fitted on the inliers."""

    label: str
    spec: DetectorSpec
    own: Json
    """Description of the detector."""
    splits: tuple[tuple[str, ImageSource], ...]
    """Images to fit it on: train, and val and outliers where its `fit` takes them."""
    seed: int | None
    """None where its `fit` takes none."""

    @cached_property
    def identity(self) -> Any:
        images = {name: source.about.fingerprint for name, source in self.splits}
        return {"kind": "detector", "version": 1, "detector": self.own, "images": images, "seed": self.seed}

    @property
    def requires(self) -> tuple[Cell, ...]:
        return tuple(need for _, source in self.splits for need in source.requires)

    @property
    def title(self) -> str:
        return f"fit {self.label}"

    @property
    def suspect(self) -> str:
        return self.label

    def work(self, cells: Sequence[Any]) -> Work:
        return DetectorFitWork(tuple(cells))

    def make(self) -> Detector:
        """The detector, not fitted."""
        detector = create_any(self.spec.name, **self.spec.params)
        assert isinstance(detector, Detector)
        return detector

    def fit(self, store: Store) -> tuple[Detector, Tensor | None]:
        """Fit one, where there is something to fit it on; a few of the training images come with it."""
        detector, images = self.make(), {name: source.open(store) for name, source in self.splits}
        train = images.pop("train", None)
        if train is None:
            return detector, None
        fit(detector, train, **images, **({} if self.seed is None else {"seed": self.seed}))
        return detector, train.batch(np.arange(min(CHECK_IMAGES, len(train))))

    def kept(self, store: Store) -> bool:
        """Does the store hold its state?"""
        return bool(store.facts(self.id)["kept"])

    def fitted(self, store: Store) -> Detector:
        """The detector as this cell has fitted it; where its state could not be kept, as this process fits it."""
        if self.kept(store):
            return restore(self.make(), store.arrays(self.id, STATE))
        return self.fit(store)[0]


def fit_cell(
    label: str, spec: DetectorSpec, own: Json, make: Callable[[], Detector], splits: dict[str, ImageSource], seed: int
) -> DetectorFitCell | None:
    """Return the cell that makes and fits a detector once for all.

    None where any process can make it alike: there is nothing to fit (or to fit it on), and nothing is drawn at random.
    """
    detector = make()
    if type(detector).fit is Detector.fit or "train" not in splits:
        return DetectorFitCell(label, spec, own, (), None) if drawn(own) else None
    taken = accepted_arguments(detector)
    used = tuple((name, source) for name, source in splits.items() if name == "train" or name in taken)
    return DetectorFitCell(label, spec, own, used, seed if "seed" in taken else None)


DRAWN = "drawn"


def description(make: Callable[[], Detector]) -> Json | None:
    """Return what a detector is, as `describe` does, but for attributes that every object draws at random.

    They are no part of what it is: one object is made, and its state kept.
    """
    first, second = describe(make()), describe(make())
    if first == second or not (isinstance(first, dict) and isinstance(second, dict) and "holds" in first):
        return first
    held = {name: value for name, value in first["holds"].items() if second["holds"].get(name) == value}
    return {**first, "holds": held, DRAWN: sorted(first["holds"].keys() - held.keys())}


def drawn(own: Json) -> bool:
    """Does every object of this description draw something at random?"""
    return isinstance(own, dict) and DRAWN in own


class DetectorFitWork(Work):
    """One fit, in one chunk that may take any time."""

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
        return DetectorFitJob(self.cells[0], store, self.id)


class DetectorFitJob(SingleJob[DetectorFitCell]):
    """Fits, and takes the state out."""

    def __init__(self, cell: DetectorFitCell, store: Store, work: str) -> None:
        self.cell, self.store, self.work = cell, store, work
        self.results: Arrays = {}

    def run(self, chunk: Chunk, progress: Progress) -> Arrays:
        with resumable(self.store.scratch(self.work), TrainingProgress(chunk.stop, progress)):
            detector, images = self.cell.fit(self.store)
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
        why = self.results[WHY].tobytes().decode()
        logging.getLogger("farout").warning(
            f"{self.cell.label}: what it has learned cannot be kept ({why}); one process fits it anew and scores "
            "everything, and its results are computed again when some are missing"
        )
        return Record({"kept": False, "why": why}, {})
