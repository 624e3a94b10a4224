"""The cell of a detector that must be fitted before it can look at images its own way, or learns from outliers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from farout import rng
from farout.core import Activations, ImageSet, PostHoc
from farout.detectors.panel.table import Table, columns_of
from farout.networks.passes import forward, perturbed_pass
from farout.scores import as_scores, finite
from farout.study.cells.cell import Arrays, Cell, Chunk, Job, Progress, Record, SingleJob, Work
from farout.study.cells.fit import MEMBER, STATE, FitCell, Part
from farout.study.sources.images import ImageSource
from farout.study.sources.networks import NetworkSource
from farout.study.store import Store
from farout.tensors import as_images


def fitted(
    network: NetworkSource,
    detector: PostHoc,
    train: ImageSource | None,
    val: ImageSource | None,
    outliers: ImageSource | None,
) -> FitCell:
    """The cell that leaves the detector ready to score."""
    fit = FitCell(network, detector, train, val)
    outliers = outliers if detector.supervised else None
    if val is None or not (outliers or (detector.perturbs and detector.fits_on)):
        return fit
    return LookCell(network, detector, train, val, fit, outliers)


@dataclass(frozen=True)
class LookCell(FitCell):
    """A detector as another cell has fitted it, which has seen the validation split its own way, and outliers."""

    first: FitCell
    outliers: ImageSource | None

    @cached_property
    def identity(self) -> Any:
        splits = {"val": self.val, "outliers": self.outliers}
        about = {split: source and source.about.fingerprint for split, source in splits.items()}
        return {"kind": "look", "version": 1, "fitted": self.first.id, **about}

    @property
    def requires(self) -> tuple[Cell, ...]:
        splits = (need for source in self.sources.values() for need in source.requires)
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
        return LookWork(tuple(cells))

    def on(self, part: Part) -> FitCell:
        if self.outliers is None:
            return self.first.on(part)
        train, val = (split and part(split) for split in (self.train, self.val))
        return replace(self, train=train, val=val, first=self.first.on(part))

    @property
    def sources(self) -> dict[str, ImageSource]:
        """What is looked at."""
        found = {"val": self.val, "outliers": self.outliers}
        return {role: source for role, source in found.items() if source is not None}


class LookWork(Work):
    """One detector's own passes over the validation split and the outliers."""

    @property
    def portable(self) -> bool:
        cell = self.cells[0]
        return all(source.portable for source in (cell.network, *cell.sources.values()))

    @cached_property
    def roles(self) -> dict[str, int]:
        return {role: source.about.total for role, source in self.cells[0].sources.items()}

    def prepare(self, store: Store, device: torch.device) -> Job:
        return LookJob(self.cells[0], store, device)


class LookJob(SingleJob[LookCell]):
    """Looks at the images as the detector does; then lets it learn, and scores the validation split."""

    def __init__(self, cell: LookCell, store: Store, device: torch.device) -> None:
        self.cell = cell
        self.network = cell.network.build(store).to(device)
        self.panel = cell.first.fitted(store, self.network)
        self.detector = self.panel.detectors[MEMBER]
        self.images: dict[str, ImageSet] = {role: source.open(store) for role, source in cell.sources.items()}
        self.tables = {role: Table(len(images), self.network.head) for role, images in self.images.items()}

    @torch.inference_mode()
    def run(self, chunk: Chunk, progress: Progress) -> Arrays:
        batch = as_images(self.images[chunk.role].batch(range(chunk.start, chunk.stop)), self.network.device)
        needs = self.detector.needs
        looks = self.detector.perturbs
        seen = perturbed_pass(self.network, self.detector, batch) if looks else forward(self.network, batch, needs)
        progress(len(batch))
        return {name: rows.numpy() for name, rows in columns_of(seen, needs).items()}

    def collect(self, chunk: Chunk, results: Arrays) -> None:
        self.tables[chunk.role].put(chunk.start, {name: torch.from_numpy(rows) for name, rows in results.items()})

    def complete(self, chunk: Chunk, results: Arrays) -> bool:
        return bool(results)

    def record(self) -> Record:
        inliers = self._seen("val")
        if "outliers" in self.images:
            outliers = self._seen("outliers")
            self.detector.supervise(_rows(inliers, rng.subset_indices(len(inliers), len(outliers))), outliers)
        device = self.network.device
        self.detector.state = {key: value.to(device) for key, value in self.detector.state.items()}
        with torch.inference_mode():
            parts = [as_scores(self.detector.score(p.to(device)), len(p), MEMBER) for p in inliers.chunks()]
        self.panel.validation = finite({MEMBER: np.concatenate(parts)}, self.images["val"].name)
        return Record({}, {STATE: self.panel.save})

    def _seen(self, role: str) -> Activations:
        return self.tables[role].activations()


def _rows(activations: Activations, places: Any) -> Activations:
    return activations if len(places) == len(activations) else activations[torch.from_numpy(places)]
