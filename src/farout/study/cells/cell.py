"""Cells and work. A cell is one result with an identity; work is the cells that one sweep over chunks computes."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from farout.identity import Json, digest
from farout.interrupts import requested
from farout.progress import Progress as Progress
from farout.study.store import Store
from farout.tensors import CHUNK, chunks
from farout.user_code import raised_at

Arrays = dict[str, NDArray[Any]]


class Cell(ABC):
    """One result. Same identity, same result: it is computed once and kept."""

    @property
    @abstractmethod
    def identity(self) -> Json:
        """Everything the result depends on: kind, version, parameters, digests of weights and data, seeds."""

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
        """Cells of one group are computed by one sweep: they share their images and their forward pass. By default a
        cell is alone."""
        return self.id

    @property
    @abstractmethod
    def title(self) -> str:
        """What is computed, for people."""

    @property
    def suspect(self) -> str:
        """The detector whose code computes it, for people: one that ends its process is not asked again in that run."""
        return ""

    @abstractmethod
    def work(self, cells: Sequence[Any]) -> Work:
        """The work that computes these cells of the group."""


C = TypeVar("C", bound=Cell)
T = TypeVar("T")


class Entry(NamedTuple):
    """One cell of a plan, with what it means to its protocol."""

    protocol: str
    cell: Cell
    tags: Mapping[str, str]


class Chunk(NamedTuple):
    """Consecutive images of one role (train, val, test), or chains of a search."""

    role: str
    start: int
    stop: int

    def __str__(self) -> str:
        return f"{self.role}-{self.start}-{self.stop}"


class Record(NamedTuple):
    """What a cell leaves in the store: small facts, and functions that write its files."""

    facts: Mapping[str, Any]
    files: Mapping[str, Callable[[Path], None]]


class Job(ABC):
    """Work made ready in one process."""

    @abstractmethod
    def run(self, chunk: Chunk, progress: Progress) -> Arrays:
        """Compute one chunk; what goes wrong for a single cell is an `error_key` entry and leaves the others be."""

    @abstractmethod
    def collect(self, chunk: Chunk, results: Arrays) -> None:
        """Take in a chunk's results, in any order."""

    @abstractmethod
    def complete(self, chunk: Chunk, results: Arrays) -> bool:
        """Do results that an earlier run has kept serve all of the cells?"""

    @abstractmethod
    def finish(self) -> Iterator[tuple[str, Record | str]]:
        """The record of every cell, one after the other, or the traceback of what went wrong with it."""


class SingleJob(Job, Generic[C]):
    """Work on one cell."""

    cell: C

    @abstractmethod
    def record(self) -> Record:
        """What has become of it."""

    def finish(self) -> Iterator[tuple[str, Record | str]]:
        yield self.cell.id, attempt(self.record)


@dataclass(frozen=True)
class Work(ABC):
    """Cells computed together, chunk by chunk."""

    cells: tuple[Any, ...]
    chunk_size: ClassVar[int] = CHUNK
    limited: ClassVar[bool] = True
    """Does the time limit for one chunk hold for it?"""

    def __getstate__(self) -> dict[str, Any]:
        return {"cells": self.cells}  # what else there is follows from them

    @property
    def id(self) -> str:
        """The group: unfinished work is found again by it, also when some of its cells are done or others join."""
        group: str = self.cells[0].group
        return group

    @property
    def requires(self) -> tuple[Cell, ...]:
        """The cells this work is computed from."""
        return tuple({need.id: need for cell in self.cells for need in cell.requires}.values())

    @property
    @abstractmethod
    def portable(self) -> bool:
        """May its chunks run in other processes?"""

    def stays(self, store: Store) -> bool:
        """Must it be computed by this process, since a detector's fitted state cannot be kept? Asked once all that it
        requires is there."""
        subjects = (getattr(cell, "subject", None) for cell in self.cells)
        return any(subject.stays(store) for subject in subjects if subject is not None)

    @cached_property
    @abstractmethod
    def roles(self) -> dict[str, int]:
        """How many images of each role are swept."""

    @abstractmethod
    def prepare(self, store: Store, device: torch.device) -> Job:
        """Load what the work needs."""

    @cached_property
    def chunks(self) -> list[Chunk]:
        """The chunks: fixed by the data alone, not by who computes them."""
        sizes = self.roles.items()
        return [Chunk(role, part.start, part.stop) for role, n in sizes for part in chunks(n, self.chunk_size)]

    def cost(self, chunk: Chunk) -> int:
        """How many images its chunk has scored."""
        return chunk.stop - chunk.start

    @property
    def total_cost(self) -> int:
        """How many images all of the work has scored."""
        return sum(map(self.cost, self.chunks))


def attempt(compute: Callable[[], T]) -> T | str:
    """Return what a cell's own code gives, or the traceback of what goes wrong in it.

    A detector may raise anything, `SystemExit` and `KeyboardInterrupt` among it; only an order to stop passes through.
    """
    try:
        return compute()
    except BaseException as error:
        if requested(error):
            raise
        return formatted()


def formatted() -> str:
    """Return the traceback of the exception being handled, in characters that any file takes."""
    return traceback.format_exc().encode("utf-8", "backslashreplace").decode()


def reason(told: str) -> str:
    """The line of a traceback that names the error, the first after its last frame, and the user's line behind it."""
    lines = told.strip().splitlines() or ["an error without a word"]
    frames = [place for place, line in enumerate(lines) if line.startswith('  File "')]
    after = lines[frames[-1] :] if frames else lines
    named = next((line for line in after if not line.startswith((" ", "+"))), lines[-1].strip())
    return named + raised_at(told)


def error_key(cell: Cell) -> str:
    """The key under which a chunk's results carry a cell's traceback."""
    return f"error:{cell.id}"


def encode_error(told: str) -> NDArray[np.uint8]:
    """A traceback as an array, so that it is kept with the results of its chunk."""
    return np.frombuffer(told.encode(), dtype=np.uint8)


def decode_error(array: NDArray[np.uint8]) -> str:
    """The traceback again."""
    return array.tobytes().decode()
