"""Perceptual cell: the perceptual distance between images and changed copies of them, also at equal L2 distance."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.generators.perceptual import Form, perceptual_distance
from farout.metrics.similarity import lpips_module
from farout.networks import Network
from farout.study.cells.cell import Arrays, Cell, Chunk, Job, Progress, Record, SingleJob, UntimedWork, Work
from farout.study.sources.images import ImageSource
from farout.study.sources.networks import NetworkSource
from farout.study.store import Store, array_file, score_table
from farout.study.thumbnails import thumbnails

PUBLISHED_L2, PUBLISHED_VALUES = 50.0, 3 * 224 * 224
"""L2 distance that the paper sets (Fig. 10a), and the number of values of its images."""
DISTANCE, AT_EQUAL_L2, L2 = "distance", "distance_at_equal_l2", "l2"
"""Columns: perceptual distance, the same at equal L2 distance, and the L2 distance before."""
SHOWN_CLASSES, PER_CLASS = 10, 2
"""Largest number of classes, and of images of each, that are stored for the report."""


def equal_l2(shape: tuple[int, int, int]) -> float:
    """Return the L2 distance for images of a shape that has the paper's root mean square: 50 at 224 px, 3 channels."""
    return PUBLISHED_L2 * math.sqrt(math.prod(shape) / PUBLISHED_VALUES)


@dataclass(frozen=True)
class PerceptualCell(Cell):
    """Perceptual distance between the images of one source and those of another, image by image.

    For the distance at equal L2, the change δ of an image x is scaled: x + l2 · δ/‖δ‖, without clipping ("The Raised
    Bar", Fig. 10a); an unchanged image has the distance 0.
    """

    network: NetworkSource
    images: ImageSource
    """Changed images, in the order of `originals`."""
    originals: ImageSource
    form: Form

    @cached_property
    def identity(self) -> Any:
        return {
            "kind": "perceptual",
            "version": 1,
            "network": None if self.form == "lpips" else self.network.identity(),
            "images": [source.about.fingerprint for source in (self.images, self.originals)],
            "form": self.form,
        }

    @property
    def requires(self) -> tuple[Cell, ...]:
        return (*self.network.requires, *self.images.requires, *self.originals.requires)

    @property
    def title(self) -> str:
        return f"perceptual distance of {self.images.about.name} to {self.originals.about.name}"

    def work(self, cells: Sequence[Any]) -> Work:
        return PerceptualWork(tuple(cells))


class PerceptualWork(UntimedWork):
    """Work on the images of one cell."""

    @property
    def portable(self) -> bool:
        cell = self.cells[0]
        return bool(cell.network.portable and cell.images.portable and cell.originals.portable)

    @cached_property
    def roles(self) -> dict[str, int]:
        return {"images": self.cells[0].images.about.total}

    def prepare(self, store: Store, device: torch.device) -> Job:
        return PerceptualJob(self.cells[0], store, device)


class PerceptualJob(SingleJob[PerceptualCell]):
    """Computes distances chunk by chunk."""

    def __init__(self, cell: PerceptualCell, store: Store, device: torch.device) -> None:
        self.cell, self.store, self.device = cell, store, device
        self.images, self.originals = cell.images.open(store), cell.originals.open(store)
        self.parts: dict[int, Arrays] = {}

    @cached_property
    def distance(self) -> Callable[[Tensor, Tensor], Tensor]:
        """Distance function, whose network is loaded by the first chunk."""
        if self.cell.form == "lpips":
            module = lpips_module().to(self.device)
            return lambda a, b: module(*(x.expand(-1, 3, -1, -1) * 2 - 1 for x in (a, b))).flatten()
        network = self.cell.network.build(self.store).to(self.device)
        return lambda a, b: block_distance(network, a, b, self.cell.form)

    @torch.inference_mode()
    def run(self, chunk: Chunk, progress: Progress) -> Arrays:
        places = range(chunk.start, chunk.stop)
        changed, original = (one.batch(places).to(self.device) for one in (self.images, self.originals))
        change = changed - original
        norm = change.flatten(1).norm(dim=1)
        scale = equal_l2(self.cell.images.about.shape) / norm.clamp_min(1e-12)
        scaled = original + change * scale[:, None, None, None]
        values = {
            DISTANCE: self.distance(original, changed),
            AT_EQUAL_L2: self.distance(original, scaled),
            L2: norm,
        }
        progress(len(places))
        return {name: rows.double().cpu().numpy() for name, rows in values.items()}

    def collect(self, chunk: Chunk, results: Arrays) -> None:
        self.parts[chunk.start] = results

    def complete(self, chunk: Chunk, results: Arrays) -> bool:
        return AT_EQUAL_L2 in results

    def record(self) -> Record:
        parts = [self.parts[start] for start in sorted(self.parts)]
        columns: Arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        columns["index"] = self.images.index
        if not all(np.isfinite(values).all() for values in columns.values()):
            raise ValueError(f"{self.cell.title}: some distances are not finite numbers")
        if self.images.labels is not None:
            columns["label"] = self.images.labels
        facts = {
            "images": len(columns["index"]),
            "l2": equal_l2(self.cell.images.about.shape),
            "form": self.cell.form,
            "network": "LPIPS (VGG-16)" if self.cell.form == "lpips" else self.cell.network.label,
        }
        files = {"scores.parquet": score_table(columns), "examples.safetensors": array_file(self._examples())}
        return Record(facts, files)

    def _examples(self) -> Arrays:
        """Return the first images of every class beside their originals: all first ones, then all second ones."""
        labels = self.images.labels if self.images.labels is not None else np.zeros(len(self.images), np.int64)
        places = first_of_classes(labels)
        return {
            "labels": labels[places],
            "changed_images": thumbnails(self.images.batch(places)),
            "original_images": thumbnails(self.originals.batch(places)),
        }


def block_distance(network: Network, a: Tensor, b: Tensor, form: Form) -> Tensor:
    """Return the perceptual distance of pairs of images, whose values may lie outside [0, 1]."""
    with network.evaluating():
        return perceptual_distance(network(a, needs=("blocks",)), network(b, needs=("blocks",)), form)


def first_of_classes(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of the first images of the first classes: the first one of each, then the second, …"""
    found = [np.flatnonzero(labels == label) for label in np.unique(labels)[:SHOWN_CLASSES]]
    places = [of[number] for number in range(PER_CLASS) for of in found if number < len(of)]
    return np.array(places, np.int64)
