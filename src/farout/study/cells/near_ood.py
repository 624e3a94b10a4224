"""Near-OoD cells: the mutual information of a pool of generators, and the samples that lie in its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from farout.generators.mi_interval import MIInterval, overlap_by_bound, select_interval
from farout.rng import seed_of
from farout.study.cells.cell import Arrays, Cell, Chunk, Job, Progress, Record, SingleJob, UntimedWork, Work
from farout.study.cells.generate import TALLY, GenerateCell, Make, image_shape
from farout.study.cells.pool import LAMBDA as LAMBDA
from farout.study.cells.pool import MI, OpenPool, Pool
from farout.study.sources.generators import GeneratorSource
from farout.study.sources.images import ImageSource
from farout.study.store import Store, array_file
from farout.tensors import CHUNK

VALUES = "mi.safetensors"
"""Name of the file with the MI of validation and of generated images."""
AT_ONCE = 128
"""Candidates that are sampled at a time for one chunk, rounded up to a multiple of the number of generators."""
ROUNDS = 100
"""Times that candidates are sampled for one chunk before it is given up: about 0.5 % must lie in the interval."""


@dataclass(frozen=True)
class InformationCell(Cell):
    """Mutual information of validation images and of as many samples of a pool, and the interval that follows."""

    label: str
    pool: Pool
    images: ImageSource
    seed: int

    @cached_property
    def identity(self) -> Any:
        return {
            "kind": "information",
            "version": 1,
            "pool": self.pool.identity(),
            "images": self.images.about.fingerprint,
            "seed": self.seed,
        }

    @property
    def requires(self) -> tuple[Cell, ...]:
        return (*self.pool.requires, *self.images.requires)

    @property
    def title(self) -> str:
        return f"measure mutual information for {self.label}"

    def work(self, cells: Sequence[Any]) -> Work:
        return InformationWork(tuple(cells))

    def interval(self, store: Store) -> MIInterval:
        """Return the stored interval."""
        facts = store.facts(self.id)
        return MIInterval(facts["low"], facts["high"])


class InformationWork(UntimedWork):
    """Work on the validation images and the samples of one pool."""

    @property
    def portable(self) -> bool:
        return bool(self.cells[0].pool.portable and self.cells[0].images.portable)

    @cached_property
    def roles(self) -> dict[str, int]:
        total = self.cells[0].images.about.total
        return {"validation": total, "generated": total}

    def prepare(self, store: Store, device: torch.device) -> Job:
        return InformationJob(self.cells[0], store, device)


class InformationJob(SingleJob[InformationCell]):
    """Measures chunk by chunk."""

    def __init__(self, cell: InformationCell, store: Store, device: torch.device) -> None:
        self.cell, self.store, self.device = cell, store, device
        self.parts: dict[tuple[str, int], Arrays] = {}

    @cached_property
    def pool(self) -> OpenPool:
        """The models, loaded by the first chunk."""
        return self.cell.pool.open(self.store, self.device)

    def run(self, chunk: Chunk, progress: Progress) -> Arrays:
        count = chunk.stop - chunk.start
        if chunk.role == "validation":
            images = self.cell.images.open(self.store).batch(range(chunk.start, chunk.stop))
            values = {MI: self.pool.information(images)}
        else:
            made = self.pool.candidates(CHUNK, seed_of(self.cell.seed, "information", chunk.start))
            values = {name: made[name][:count] for name in (MI, LAMBDA)}
        progress(count)
        return values

    def collect(self, chunk: Chunk, results: Arrays) -> None:
        self.parts[chunk.role, chunk.start] = results

    def complete(self, chunk: Chunk, results: Arrays) -> bool:
        return MI in results

    def record(self) -> Record:
        validation, generated = self._joined("validation", MI), self._joined("generated", MI)
        interval, overlaps = select_interval(validation, generated), overlap_by_bound(validation, generated)
        facts = {
            **interval._asdict(),
            "share_kept": float(interval.contains(generated).mean()),
            "overlap": [None if np.isnan(value) else value for value in overlaps.tolist()],
        }
        arrays = {"validation": validation, "generated": generated, LAMBDA: self._joined("generated", LAMBDA)}
        return Record(facts, {VALUES: array_file(arrays)})

    def _joined(self, role: str, name: str) -> NDArray[np.float64]:
        return np.concatenate([self.parts[key][name] for key in sorted(self.parts) if key[0] == role])


@dataclass(frozen=True)
class NearCell(GenerateCell):
    """Near-OoD set: pooled samples whose mutual information lies in an interval."""

    label: str
    pool: Pool
    interval: MIInterval | InformationCell
    """Interval, or the cell that selects it."""
    count: int
    seed: int

    @cached_property
    def identity(self) -> Any:
        interval = self.interval.id if isinstance(self.interval, InformationCell) else list(self.interval)
        return {
            "kind": "near_ood",
            "version": 1,
            "pool": self.pool.identity(),
            "interval": interval,
            "count": self.count,
            "seed": self.seed,
        }

    @property
    def total(self) -> int:
        return self.count

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        return image_shape(self.pool.generators[0])

    @property
    def generators(self) -> tuple[GeneratorSource, ...]:
        return self.pool.generators

    @property
    def portable(self) -> bool:
        source = self.interval.images.portable if isinstance(self.interval, InformationCell) else True
        return self.pool.portable and source

    @property
    def requires(self) -> tuple[Cell, ...]:
        selecting = (self.interval,) if isinstance(self.interval, InformationCell) else ()
        return (*self.pool.requires, *selecting)

    def bounds(self, store: Store) -> MIInterval:
        """Return the interval."""
        return self.interval.interval(store) if isinstance(self.interval, InformationCell) else self.interval

    def maker(self, store: Store, device: torch.device) -> Make:
        pool, interval = self.pool.open(store, device), self.bounds(store)
        return lambda chunk: keep_inside(pool, interval, seed_of(self.seed, "near", chunk.start))

    def facts(self, tallies: dict[str, int], store: Store) -> dict[str, Any]:
        interval = self.bounds(store)
        return {**interval._asdict(), **tallies, "share_kept": tallies["inside"] / tallies["candidates"]}


def keep_inside(pool: OpenPool, interval: MIInterval, seed: int) -> Arrays:
    """Return the first `CHUNK` candidates whose MI lies in the interval. Raise if too few do."""
    kept: list[Arrays] = []
    candidates = inside = 0
    for number in range(ROUNDS):
        made = pool.candidates(AT_ONCE, seed_of(seed, "round", number))
        selected = interval.contains(made[MI])
        kept.append({name: rows[selected] for name, rows in made.items()})
        candidates, inside = candidates + len(selected), inside + int(selected.sum())
        if inside >= CHUNK:
            break
    else:
        raise TooFewKept(
            f"{inside:,} of {candidates:,} samples ({inside / candidates:.2%}) have mutual information in {interval}, "
            f"expected at least {CHUNK}: train the generators longer or with other values of lambda_s, or give a wider "
            "interval"
        )
    joined = {name: np.concatenate([part[name] for part in kept])[:CHUNK] for name in kept[0]}
    return {**joined, f"{TALLY}candidates": np.array(candidates), f"{TALLY}inside": np.array(inside)}


class TooFewKept(RuntimeError):
    """The interval of mutual information holds too few of a pool's samples."""
