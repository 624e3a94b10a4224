"""Search cell: searches for the worst cases of one detector in one variation."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.core import ImageSet
from farout.devices import is_host
from farout.search.objective import Judge, Objective, spread
from farout.search.search import Search
from farout.search.walk import CHAINS, Walk, diagnose, marks_for, walk
from farout.study.cells.batches import Batches, SmallestBatch
from farout.study.cells.cell import Arrays, Cell, Chunk, Job, Progress, Record, SingleJob, Work
from farout.study.cells.score import ScoreCell
from farout.study.sources.images import ImageSource
from farout.study.sources.variations import is_portable, opened, required_cells
from farout.study.store import Store, array_file, score_table
from farout.study.subjects.subject import Subject
from farout.study.thumbnails import EXAMPLES, thumbnails
from farout.variations.variation import Variation

KEEP_SECONDS = 5.0
"""Seconds between two writes of a running chunk's state to disk."""
FOUND = "found.safetensors"
PER_CHAIN = ("score", "start", "last", "accepted", "exploration", "stuck")
"""Columns of the table of scores: `score` is the lowest score of the chain, `last` the score of its last state."""
S = TypeVar("S", NDArray[np.float64], Tensor)
LATENTS = ("latents", "last_latents", "trace")


@dataclass(frozen=True)
class SearchCell(Cell):
    """Worst cases that a search finds against one detector, one chain per base image."""

    subject: Subject
    variation: Variation
    images: ImageSource | None
    """Base images; None if the variation takes none."""
    chains: int
    search: Search
    steps: int
    seed: int
    reference: ScoreCell
    """Inlier scores that standardize the search."""

    @cached_property
    def identity(self) -> Any:
        return {
            "kind": "search",
            "version": 1,
            "subject": self.subject.identity(),
            "variation": self.variation.identity(),
            "images": self.images and self.images.about.fingerprint,
            "chains": self.chains,
            "search": self.search.identity(),
            "steps": self.steps,
            "seed": self.seed,
            "reference": self.reference.id,
        }

    @property
    def requires(self) -> tuple[Cell, ...]:
        images = self.images.requires if self.images else ()
        return (*self.subject.requires, *images, *required_cells(self.variation), self.reference)

    @property
    def title(self) -> str:
        of = f" of {self.images.about.name}" if self.images else ""
        return f"search {self.variation.label}{of} against {self.subject.title} by {self.search.label}"

    @property
    def suspect(self) -> str:
        return self.subject.title

    @property
    def queries(self) -> int:
        """Number of queries of every chain, including its start."""
        return 1 + self.steps * self.search.queries(self.variation.space)

    def work(self, cells: Sequence[Any]) -> Work:
        return SearchWork(tuple(cells))

    def open_variation(self, store: Store) -> OpenVariation:
        """Return the variation, ready to decode; a generator that the run has trained is read from the store."""
        return OpenVariation(opened(self.variation, store))


class OpenVariation(NamedTuple):
    """Variation of a search cell, ready to decode."""

    variation: Variation

    def decode(self, images: ImageSet | None, indices: NDArray[np.int64], z: Tensor) -> Tensor:
        """Return the images that the latents make of the bases at these indices."""
        with torch.no_grad():
            return self.variation.decode(z, self.base(images, indices, z.device))

    def base(self, images: ImageSet | None, indices: Any, device: torch.device) -> Any:
        """Return the bases of these chains."""
        return None if images is None else self.variation.base(images, indices).to(device)


class SearchWork(Work):
    """Work on the chains of one cell, in independent chunks."""

    chunk_size = CHAINS

    @property
    def cell(self) -> SearchCell:
        """The only cell."""
        cell: SearchCell = self.cells[0]
        return cell

    @cached_property
    def portable(self) -> bool:
        fixed = not self.cell.subject.portable or (self.cell.images and not self.cell.images.portable)
        return not fixed and is_portable(self.cell.variation) and _is_picklable(self.cell)

    @cached_property
    def roles(self) -> dict[str, int]:
        return {"chains": self.cell.chains}

    def cost(self, chunk: Chunk) -> int:
        return (chunk.stop - chunk.start) * self.cell.queries

    def prepare(self, store: Store, device: torch.device) -> Job:
        return SearchJob(self, store, device)


def _is_picklable(cell: SearchCell) -> bool:
    """Return True if the user's variation and search can be sent to another process."""
    try:
        return b"__main__" not in pickle.dumps((cell.variation, cell.search))  # workers have another main module
    except Exception:
        return False


class SearchJob(SingleJob[SearchCell]):
    """Runs chains; an interrupted chunk resumes from its last stored step."""

    def __init__(self, work: SearchWork, store: Store, device: torch.device) -> None:
        self.cell, self.work, self.store, self.device = work.cell, work, store, device
        self.images = self.cell.images.open(store) if self.cell.images else None
        self.found: dict[int, Arrays] = {}
        self.batches, self.smallest = Batches(self.cell.title), SmallestBatch()
        self.marks = marks_for(self.cell.queries)

    @cached_property
    def search(self) -> Search:
        """The search, scaled to the spread of this detector's inlier scores."""
        return self.cell.search.scaled(spread(self.store.scores(self.cell.reference.id), self.cell.subject.label))

    @cached_property
    def varied(self) -> OpenVariation:
        """The variation, opened by the first chunk."""
        return self.cell.open_variation(self.store)

    @cached_property
    def judge(self) -> Judge:
        """The detector, loaded by the first chunk: a process that only collects results does not need it.

        On a GPU, its scores stay there.
        """
        if not is_host(self.device):
            return self._halving(self.cell.subject.target(self.store, self.device).score)
        score = self.cell.subject.open([self.cell.subject], self.store, self.device)

        def judge(images: Tensor) -> NDArray[np.float64]:
            (ask,) = score(images)
            return ask()

        return self._halving(judge)

    def _halving(self, judge: Callable[[Tensor], S]) -> Callable[[Tensor], S]:
        """Return the judge, asked about fewer images at a time once memory runs out."""

        def halving(images: Tensor) -> S:
            parts = self.batches.map(len(images), lambda part: judge(images[part]))
            if len(parts) == 1:
                return parts[0]
            return torch.cat(parts) if isinstance(parts[0], Tensor) else np.concatenate(parts)

        return halving

    def run(self, chunk: Chunk, progress: Progress) -> Arrays:
        cell, chains = self.cell, chunk.stop - chunk.start
        variation = self.varied.variation
        base = self.varied.base(self.images, range(chunk.start, chunk.stop), self.device)
        resume = self._read_state(chunk)
        progress(chains * self._queries(resume.steps) if resume else 0)
        score = Objective(variation, base, self.judge, cell.subject.label)
        walks = walk(
            self.search, variation.space, score, chains, cell.steps,
            seed=cell.seed, first=chunk.start, marks=self.marks, device=self.device, resume=resume,
        )  # fmt: skip
        latest = self._exhaust(walks, chunk, progress, score) or resume
        score.check()
        assert latest is not None
        return self._arrays(latest) | self.batches.note

    def _queries(self, steps: int) -> int:
        return 1 + steps * self.search.queries(self.cell.variation.space)

    def _exhaust(self, walks: Iterator[Walk], chunk: Chunk, progress: Progress, score: Objective) -> Walk | None:
        """Run all steps and return the last state; store the state every few seconds and when interrupted."""
        latest, saved = None, time.monotonic()
        try:
            for latest in walks:
                queries = 1 if latest.steps == 0 else self._queries(1) - 1
                progress((chunk.stop - chunk.start) * queries)
                if time.monotonic() - saved > KEEP_SECONDS:
                    score.check()
                    self.store.keep(self.work.id, _state_name(chunk), latest.arrays())
                    saved = time.monotonic()
        except BaseException:
            if latest is not None:
                self.store.keep(self.work.id, _state_name(chunk), latest.arrays())
            raise
        return latest

    def _read_state(self, chunk: Chunk) -> Walk | None:
        arrays = self.store.kept(self.work.id, _state_name(chunk))
        if arrays is None:
            return None
        try:
            return Walk.from_arrays(arrays, self.search, self.device)
        except (KeyError, TypeError):  # stored by another version of farout
            return None

    def _arrays(self, latest: Walk) -> Arrays:
        tensors = {
            "score": latest.best, "start": latest.start, "last": latest.state.score,
            "latents": latest.best_z, "last_latents": latest.state.z, "trace": latest.trace,
        }  # fmt: skip
        diagnostics = diagnose(latest, self.cell.variation.space)._asdict()
        return {**{key: value.cpu().numpy() for key, value in tensors.items()}, **diagnostics}

    def collect(self, chunk: Chunk, results: Arrays) -> None:
        self.found[chunk.start] = self.smallest.see(results)

    def complete(self, chunk: Chunk, results: Arrays) -> bool:
        return {*PER_CHAIN, *LATENTS} <= results.keys()

    def record(self) -> Record:
        parts = [self.found[start] for start in sorted(self.found)]
        columns = {name: np.concatenate([part[name] for part in parts]) for name in PER_CHAIN}
        arrays = {name: np.concatenate([part[name] for part in parts]) for name in LATENTS}
        arrays["queries"] = np.array(self.marks)
        files = {
            "scores.parquet": score_table({"index": self._index(), **columns}),
            FOUND: array_file(arrays),
            "examples.safetensors": array_file(self._examples(columns["score"], arrays["latents"])),
        }
        return self.smallest.noted(Record({"chains": self.cell.chains, "queries": self.cell.queries}, files))

    def _index(self) -> NDArray[np.int64]:
        """Return the index of every chain's base in its own set; without bases, the number of the chain."""
        return np.arange(self.cell.chains) if self.images is None else self.images.index

    def _examples(self, scores: NDArray[np.float64], latents: NDArray[np.float32]) -> Arrays:
        """Return thumbnails of the lowest scores, and of the first chains, which are the same for every detector."""
        examples: Arrays = {}
        order = np.argsort(scores, kind="stable")
        for kind, indices in (("lowest", order[:EXAMPLES]), ("first", np.arange(min(EXAMPLES, len(scores))))):
            z = torch.from_numpy(latents[indices]).to(self.device)
            examples |= {kind: indices, f"{kind}_images": thumbnails(self.varied.decode(self.images, indices, z))}
            if self.images is not None:
                examples[f"{kind}_bases"] = thumbnails(self.images.batch(indices))
        return examples


def _state_name(chunk: Chunk) -> str:
    return f"walk-{chunk}"
