"""Cells and works. A cell is one result with an identity; a work is the cells that one pass over chunks computes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import torch
from numpy.typing import NDArray

from farout.identity import Json, digest
from farout.progress import Progress as Progress
from farout.study.cells.errors import attempt
from farout.study.store import Store
from farout.tensors import CHUNK, chunks

Arrays = dict[str, NDArray[Any]]


class Cell(ABC):
    """One result. Cells of the same identity have the same result, which is computed once and stored."""

    @property
    @abstractmethod
    def identity(self) -> Json:
        """Everything that the result depends on: kind, version, parameters, digests of weights and data, seeds."""

    @cached_property
    def id(self) -> str:
        """Hash of the identity."""
        return digest(self.identity)

    @property
    def requires(self) -> tuple[Cell, ...]:
        """Cells whose results this one is computed from."""
        return ()

    @property
    def group(self) -> str:
        """Key of the cells that are computed together, since they share images and a forward pass. By default, a cell
        is alone in its group."""
        return self.id

    @property
    @abstractmethod
    def title(self) -> str:
        """Name of the computation in progress displays and errors."""

    @property
    def suspect(self) -> str:
        """Name of the detector whose code runs; one that ends its process is not called again in that run."""
        return ""

    @abstractmethod
    def work(self, cells: Sequence[Any]) -> Work:
        """Return the work that computes these cells of the group."""


C = TypeVar("C", bound=Cell)


def closure(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells and all cells they require, each once and after those that it requires."""
    ordered: dict[str, Cell] = {}

    def visit(cell: Cell) -> None:
        if cell.id not in ordered:
            for required in cell.requires:
                visit(required)
            ordered.setdefault(cell.id, cell)

    for cell in cells:
        visit(cell)
    return list(ordered.values())


class Entry(NamedTuple):
    """One cell of a plan, with the tags by which its protocol finds it."""

    protocol: str
    cell: Cell
    tags: Mapping[str, str]


class Chunk(NamedTuple):
    """Range of consecutive images of one role (train, val, test), or of chains of a search."""

    role: str
    start: int
    stop: int

    def __str__(self) -> str:
        return f"{self.role}-{self.start}-{self.stop}"


class Record(NamedTuple):
    """Content of a stored result: small facts, and functions that write its files."""

    facts: Mapping[str, Any]
    files: Mapping[str, Callable[[Path], None]]


class Job(ABC):
    """Work that is prepared for computation in one process."""

    @abstractmethod
    def run(self, chunk: Chunk, progress: Progress) -> Arrays:
        """Compute one chunk; an error of a single cell becomes an `error_key` entry and does not affect the others."""

    @abstractmethod
    def collect(self, chunk: Chunk, results: Arrays) -> None:
        """Add a chunk's results; chunks may come in any order."""

    @abstractmethod
    def complete(self, chunk: Chunk, results: Arrays) -> bool:
        """Return True if the stored results of a chunk hold all that the cells need."""

    @abstractmethod
    def finish(self) -> Iterator[tuple[str, Record | str]]:
        """Yield the id of every cell with its record, or with the traceback of its error."""


class SingleJob(Job, Generic[C]):
    """Job of a work that has one cell."""

    cell: C

    @abstractmethod
    def record(self) -> Record:
        """Return the record of the cell, once all chunks are collected."""

    def finish(self) -> Iterator[tuple[str, Record | str]]:
        yield self.cell.id, attempt(self.record)


@dataclass(frozen=True)
class Work(ABC):
    """Cells that are computed together, chunk by chunk."""

    cells: tuple[Any, ...]
    chunk_size: ClassVar[int] = CHUNK
    limited: ClassVar[bool] = True
    """True if the time limit for one chunk applies."""

    def __getstate__(self) -> dict[str, Any]:
        return {"cells": self.cells}  # all cached values follow from them

    @property
    def id(self) -> str:
        """Group of the cells, under which parts of unfinished work are stored, whichever of its cells are missing."""
        group: str = self.cells[0].group
        return group

    @cached_property
    def requires(self) -> tuple[Cell, ...]:
        """All cells that this work is computed from, also indirectly."""
        return tuple(closure([required for cell in self.cells for required in cell.requires]))

    @property
    @abstractmethod
    def portable(self) -> bool:
        """True if its chunks may run in other processes."""

    def stays(self, store: Store) -> bool:
        """Return True if this process must compute it, since a detector's fitted state cannot be stored.

        Called only when all required cells are present.
        """
        subjects = (getattr(cell, "subject", None) for cell in self.cells)
        return any(subject.stays(store) for subject in subjects if subject is not None)

    @cached_property
    @abstractmethod
    def roles(self) -> dict[str, int]:
        """Number of images of each role."""

    @abstractmethod
    def prepare(self, store: Store, device: torch.device) -> Job:
        """Load images and models, and return the job."""

    @cached_property
    def chunks(self) -> list[Chunk]:
        """Chunks of the work; they depend on the data only, not on the number of workers."""
        sizes = self.roles.items()
        return [Chunk(role, part.start, part.stop) for role, n in sizes for part in chunks(n, self.chunk_size)]

    def cost(self, chunk: Chunk) -> int:
        """Return the number of images that are scored for a chunk."""
        return chunk.stop - chunk.start

    @property
    def total_cost(self) -> int:
        """Number of images that are scored for all chunks."""
        return sum(map(self.cost, self.chunks))


class UntimedWork(Work):
    """Work on one cell that runs no detector, so that the time limit for a chunk does not apply."""

    limited = False

    @property
    def portable(self) -> bool:
        return bool(self.cells[0].portable)
