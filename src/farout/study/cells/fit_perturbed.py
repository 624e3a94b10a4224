"""Second fit cell of a detector that scores by perturbed passes once it is fitted, or that learns from outliers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch

from farout import rng
from farout.core import Activations, ImageSet, PostHoc
from farout.detectors.panel.memory import Memory
from farout.detectors.panel.table import Table, columns_of
from farout.networks.passes import forward, perturbed_pass
from farout.scores import as_scores, finite
from farout.study.cells.cell import Arrays, Cell, Chunk, Job, Progress, Record, SingleJob, Work
from farout.study.cells.fit import MEMBER, STATE, FitCell, Part
from farout.study.sources.images import ImageSource
from farout.study.sources.networks import NetworkSource
from farout.study.store import Store
from farout.tensors import as_images


def build_posthoc_fit_cell(
    network: NetworkSource,
    detector: PostHoc,
    train: ImageSource | None,
    val: ImageSource | None,
    outliers: ImageSource | None,
) -> FitCell:
    """Return the cell whose stored state makes the detector ready to score."""
    fit = FitCell(network, detector, train, val)
    outliers = outliers if detector.supervised else None
    if val is None or not (outliers or (detector.perturbs and detector.fits_on)):
        return fit
    return PerturbedFitCell(network, detector, train, val, fit, outliers)


@dataclass(frozen=True)
class PerturbedFitCell(FitCell):
    """Detector that another cell has fitted, with its own passes over the validation split and outliers.

    Outliers, if any, are used to fit it further; the validation split is scored.
    """

    first: FitCell
    outliers: ImageSource | None

    @cached_property
    def identity(self) -> Any:
        splits = {"val": self.val, "outliers": self.outliers}
        about = {split: source and source.about.fingerprint for split, source in splits.items()}
        return {"kind": "look", "version": 1, "fitted": self.first.id, **about}

    @property
    def requires(self) -> tuple[Cell, ...]:
        splits = (cell for source in self.sources.values() for cell in source.requires)
        return (*self.network.requires, *splits, self.first)

    @property
    def group(self) -> str:
        return self.id

    @property
    def title(self) -> str:
        return f"fit {self.detector.name} on {self.network.label}"

    @property
    def learns(self) -> dict[str, ImageSource]:
        return {**self.first.learns, **(self.sources if self.outliers else {})}

    @property
    def learns_from(self) -> ImageSource | None:
        return self.outliers

    def work(self, cells: Sequence[Any]) -> Work:
        return PerturbedFitWork(tuple(cells))

    def on(self, part: Part) -> FitCell:
        if self.outliers is None:
            return self.first.on(part)
        train, val = (split and part(split) for split in (self.train, self.val))
        return replace(self, train=train, val=val, first=self.first.on(part))

    @property
    def sources(self) -> dict[str, ImageSource]:
        """Image sources by role."""
        sources = {"val": self.val, "outliers": self.outliers}
        return {role: source for role, source in sources.items() if source is not None}


class PerturbedFitWork(Work):
    """Work on one detector: its own passes over the validation split and the outliers."""

    @property
    def portable(self) -> bool:
        cell = self.cells[0]
        return all(source.portable for source in (cell.network, *cell.sources.values()))

    @cached_property
    def roles(self) -> dict[str, int]:
        return {role: source.about.total for role, source in self.cells[0].sources.items()}

    def prepare(self, store: Store, device: torch.device) -> Job:
        return PerturbedFitJob(self.cells[0], store, device)


class PerturbedFitJob(SingleJob[PerturbedFitCell]):
    """Runs the detector's own passes, then fits it on the outliers and scores the validation split."""

    def __init__(self, cell: PerturbedFitCell, store: Store, device: torch.device) -> None:
        self.cell = cell
        self.network = cell.network.build(store).to(device)
        self.panel = cell.first.fitted(store, self.network)
        self.detector = self.panel.detectors[MEMBER]
        self.images: dict[str, ImageSet] = {role: source.open(store) for role, source in cell.sources.items()}
        memory = Memory(partial(store.scratch, cell.group))
        self.tables = {role: Table(len(images), self.network.head, memory) for role, images in self.images.items()}

    @torch.inference_mode()
    def run(self, chunk: Chunk, progress: Progress) -> Arrays:
        batch = as_images(self.images[chunk.role].batch(range(chunk.start, chunk.stop)), self.network.device)
        needs = self.detector.needs
        if self.detector.perturbs:
            activations = perturbed_pass(self.network, self.detector, batch)
        else:
            activations = forward(self.network, batch, needs)
        progress(len(batch))
        return {name: rows.numpy() for name, rows in columns_of(activations, needs).items()}

    def collect(self, chunk: Chunk, results: Arrays) -> None:
        self.tables[chunk.role].put(chunk.start, {name: torch.from_numpy(rows) for name, rows in results.items()})

    def complete(self, chunk: Chunk, results: Arrays) -> bool:
        return bool(results)

    def record(self) -> Record:
        inliers = self._activations("val")
        if "outliers" in self.images:
            outliers = self._activations("outliers")
            self.detector.supervise(_select_rows(inliers, rng.subset_indices(len(inliers), len(outliers))), outliers)
        device = self.network.device
        self.detector.state = {key: value.to(device) for key, value in self.detector.state.items()}
        with torch.inference_mode():
            parts = [
                as_scores(self.detector.score(p.to(device)), len(p), self.cell.detector.name) for p in inliers.chunks()
            ]
        self.panel.validation = {
            MEMBER: finite(np.concatenate(parts), self.cell.detector.name, self.images["val"].name)
        }
        return Record({}, {STATE: self.panel.save})

    def _activations(self, role: str) -> Activations:
        return self.tables[role].activations()


def _select_rows(activations: Activations, indices: Any) -> Activations:
    return activations if len(indices) == len(activations) else activations[torch.from_numpy(indices)]
