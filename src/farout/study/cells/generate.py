"""Cells that generate image sets: samples of a generator, and images that a generator has translated."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from farout.data.arrays import as_bytes
from farout.generators import Generator
from farout.rng import seed_of
from farout.study.cells.cell import Arrays, Cell, Chunk, Job, Progress, Record, SingleJob, UntimedWork, Work
from farout.study.sources.generators import GeneratorSource
from farout.study.sources.images import ImageSource
from farout.study.store import Store, array_file, score_table
from farout.study.thumbnails import EXAMPLES
from farout.tensors import CHUNK

IMAGES = "images.npy"
"""Name of the file with the images: uint8 [N, H, W, C]."""
PIXELS, TALLY = "images", "tally:"
"""Key of a chunk's images, and prefix of its counts, which are summed over all chunks; all else are attributes."""
CLASS = "class_label"
"""Attribute: the class that a class-conditional generator was asked for."""
Make = Callable[[Chunk], Arrays]
"""Function that generates the images of a chunk, with their attributes and counts."""


class GenerateCell(Cell):
    """Base of cells that generate an image set: 8-bit images with attributes."""

    label: str
    seed: int

    @property
    @abstractmethod
    def total(self) -> int:
        """Number of images."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""

    @property
    def base(self) -> ImageSource | None:
        """Images that are changed one by one, if any."""
        return None

    @property
    @abstractmethod
    def generators(self) -> tuple[GeneratorSource, ...]:
        """Generators that it uses."""

    @property
    def portable(self) -> bool:
        """True if it can run in another process."""
        return all(one.portable for one in self.generators) and (self.base is None or self.base.portable)

    @property
    def requires(self) -> tuple[Cell, ...]:
        images = self.base.requires if self.base else ()
        return (*(cell for generator in self.generators for cell in generator.requires), *images)

    @property
    def title(self) -> str:
        return f"generate {self.label}"

    @abstractmethod
    def maker(self, store: Store, device: torch.device) -> Make:
        """Load the models, and return the function that generates a chunk."""

    def facts(self, tallies: dict[str, int], store: Store) -> dict[str, Any]:
        """Return the small facts of the set, from the counts summed over all chunks."""
        return dict(tallies)

    def work(self, cells: Sequence[Any]) -> Work:
        return GenerateWork(tuple(cells))


class GenerateWork(UntimedWork):
    """Work on one generated set."""

    @cached_property
    def roles(self) -> dict[str, int]:
        return {"images": self.cells[0].total}

    def prepare(self, store: Store, device: torch.device) -> Job:
        return GenerateJob(self.cells[0], store, device)


class GenerateJob(SingleJob[GenerateCell]):
    """Generates chunk by chunk; the images of a chunk depend on its position alone."""

    def __init__(self, cell: GenerateCell, store: Store, device: torch.device) -> None:
        self.cell, self.store, self.device = cell, store, device
        self.parts: dict[int, Arrays] = {}

    @cached_property
    def make(self) -> Make:
        """The models, loaded by the first chunk: a process that only collects results does not need them."""
        return self.cell.maker(self.store, self.device)

    def run(self, chunk: Chunk, progress: Progress) -> Arrays:
        count = chunk.stop - chunk.start
        made = {name: rows if name.startswith(TALLY) else rows[:count] for name, rows in self.make(chunk).items()}
        progress(count)
        return made

    def collect(self, chunk: Chunk, results: Arrays) -> None:
        self.parts[chunk.start] = results

    def complete(self, chunk: Chunk, results: Arrays) -> bool:
        return PIXELS in results

    def record(self) -> Record:
        parts = [self.parts[start] for start in sorted(self.parts)]
        names = [name for name in parts[0] if not name.startswith(TALLY)]
        columns = {name: np.concatenate([part[name] for part in parts]) for name in names}
        tallies = {
            name.removeprefix(TALLY): int(sum(part[name].sum() for part in parts))
            for name in parts[0]
            if name.startswith(TALLY)
        }
        images = columns.pop(PIXELS)
        files = {
            "scores.parquet": score_table({"index": np.arange(len(images)), **columns}),
            IMAGES: lambda path: _save(path, images),
            "examples.safetensors": array_file({"first_images": images[:EXAMPLES]}),
        }
        return Record({"images": len(images), **self.cell.facts(tallies, self.store)}, files)


def _save(path: Path, images: NDArray[np.uint8]) -> None:
    np.save(path, images)


def draw(generator: Generator, count: int, seed: int) -> Arrays:
    """Return samples of a generator as 8-bit pixels; of a class-conditional one, of classes drawn at random."""
    labels = generator.labels(count, seed)
    drawn = {PIXELS: as_bytes(generator.sample(count, seed))}
    return drawn if labels is None else {**drawn, CLASS: labels.numpy()}


@dataclass(frozen=True)
class SampleCell(GenerateCell):
    """Samples of one generator."""

    label: str
    generator: GeneratorSource
    count: int
    seed: int

    @cached_property
    def identity(self) -> Any:
        return {
            "kind": "samples",
            "version": 1,
            "generator": self.generator.identity(),
            "count": self.count,
            "seed": self.seed,
        }

    @property
    def total(self) -> int:
        return self.count

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        return image_shape(self.generator)

    @property
    def generators(self) -> tuple[GeneratorSource, ...]:
        return (self.generator,)

    def maker(self, store: Store, device: torch.device) -> Make:
        generator = self.generator.build(store).to(device)
        return lambda chunk: draw(generator, CHUNK, seed_of(self.seed, "sample", chunk.start))


@dataclass(frozen=True)
class TranslateCell(GenerateCell):
    """Images of another source that a generator has translated; they keep their labels."""

    label: str
    generator: GeneratorSource
    images: ImageSource
    seed: int

    @cached_property
    def identity(self) -> Any:
        return {
            "kind": "translated",
            "version": 1,
            "generator": self.generator.identity(),
            "images": self.images.about.fingerprint,
            "seed": self.seed,
        }

    @property
    def total(self) -> int:
        return self.images.about.total

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.images.about.shape

    @property
    def base(self) -> ImageSource:
        return self.images

    @property
    def generators(self) -> tuple[GeneratorSource, ...]:
        return (self.generator,)

    def maker(self, store: Store, device: torch.device) -> Make:
        generator, images = self.generator.build(store).to(device), self.images.open(store)

        def make(chunk: Chunk) -> Arrays:
            places = range(chunk.start, chunk.stop)
            return {PIXELS: as_bytes(generator.translate(images.batch(places).to(device), self.seed, places))}

        return make


def image_shape(generator: GeneratorSource) -> tuple[int, int, int]:
    """Return channels, height and width of the images that a generator makes."""
    known = generator.preview()
    return known.channels, known.side, known.side
