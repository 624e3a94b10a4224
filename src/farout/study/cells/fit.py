"""Fit cell: fits one post-hoc detector; all detectors of one network share one pass over the inliers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from farout.core import PER_BLOCK, Activations, ImageSet, PostHoc, Split
from farout.detectors.panel.memory import Memory
from farout.detectors.panel.panel import Panel
from farout.detectors.panel.reduced import Reduced, reduce_fit
from farout.detectors.panel.table import Table, columns_of, joined
from farout.identity import digest
from farout.networks import Ensemble, Network
from farout.networks.passes import forward
from farout.study.cells.batches import Batches, SmallestBatch
from farout.study.cells.cell import Arrays, Cell, Chunk, Job, Progress, Record, Work
from farout.study.cells.errors import attempt, decode_error, encode_error, error_key
from farout.study.engines import activity
from farout.study.sources.images import ImageSource
from farout.study.sources.networks import NetworkSource
from farout.study.store import Store
from farout.tensors import CHUNK, chunks

STATE = "state.safetensors"
Part = Callable[[ImageSource], ImageSource]
"""Function that returns a subset of an image source, for example the images of one class."""
CHUNKS = 1024
"""Chunks of a training split from which on they grow instead of becoming more."""
LONGEST = 16
"""Largest number of batches in a chunk."""
MEMBER = "detector"
"""Name of the only detector in a stored panel, independent of its label, which is not part of a result."""


@dataclass(frozen=True)
class FitCell(Cell):
    """One detector fitted on the inliers, with its scores on the validation split."""

    network: NetworkSource
    detector: PostHoc
    train: ImageSource | None
    val: ImageSource | None

    @cached_property
    def identity(self) -> Any:
        return {
            "kind": "fit",
            "version": 1,
            "network": self.network.identity(),
            "detector": self.detector.identity(),
            **{split: source and source.about.fingerprint for split, source in self._splits.items()},
        }

    @property
    def _splits(self) -> dict[str, ImageSource | None]:
        """Splits on which the network is run."""
        return {"train": self.train if self.detector.fits_on == "train" else None, "val": self.val}

    @property
    def requires(self) -> tuple[Cell, ...]:
        splits = (cell for source in self._splits.values() if source for cell in source.requires)
        return (*self.network.requires, *splits)

    @property
    def group(self) -> str:
        splits = [source and source.about.fingerprint for source in (self.train, self.val)]
        return digest(["fit", self.network.identity(), splits])

    @property
    def title(self) -> str:
        return f"fit on {self.network.label}"

    @property
    def suspect(self) -> str:
        return f"{self.detector.name} on {self.network.label}"

    @property
    def learns(self) -> dict[str, ImageSource]:
        """Images that the detector is fitted on, by split."""
        splits = {"train": self.train, "val": self.val}
        return {split: images for split, images in splits.items() if images and split == self.detector.fits_on}

    @property
    def learns_from(self) -> ImageSource | None:
        """Outliers that the detector learns from."""
        return None

    def work(self, cells: Sequence[Any]) -> Work:
        return FitWork(tuple(cells))

    def on(self, part: Part) -> FitCell:
        """Return the cell of the same detector fitted on a part of the inliers.

        Validation images that it is not fitted on are left out.
        """
        val = self.val if self.detector.fits_on == "val" else None
        return replace(self, train=self.train and part(self.train), val=val and part(val))

    def panel(self, network: Network) -> Panel:
        """Return a panel of the unfitted detector on its network."""
        return Panel(network, {MEMBER: copy.deepcopy(self.detector)}, titles={MEMBER: self.detector.name})

    def fitted(self, store: Store, network: Network) -> Panel:
        """Return a panel with the stored state of this cell."""
        panel = self.panel(network)
        panel.load_state(store.file(self.id, STATE))
        return panel


class FitWork(Work):
    """Work on the detectors of one network: one pass over each split that they are fitted on."""

    @property
    def portable(self) -> bool:
        cell = self.cells[0]
        return all(source.portable for source in (cell.network, cell.train, cell.val) if source is not None)

    @cached_property
    def roles(self) -> dict[str, int]:
        cell = self.cells[0]
        train = cell.train if any(c.detector.fits_on == "train" for c in self.cells) else None
        return {role: s.about.total for role, s in (("train", train), ("val", cell.val)) if s is not None}

    @cached_property
    def chunks(self) -> list[Chunk]:
        sizes = {role: LONGEST if role == "train" else 1 for role in self.roles}
        parts = {role: chunks(total, batches(total, sizes[role]) * CHUNK) for role, total in self.roles.items()}
        return [Chunk(role, part.start, part.stop) for role in parts for part in parts[role]]

    def prepare(self, store: Store, device: torch.device) -> Job:
        return FitJob(self, store, device)


def batches(total: int, longest: int) -> int:
    """Return the batches per chunk of a split: one, but more of a long split, whose reductions then keep less."""
    return max(1, min(longest, total // (CHUNK * CHUNKS)))


class FitJob(Job):
    """Runs the network over the splits, then fits every detector from the activations."""

    def __init__(self, work: FitWork, store: Store, device: torch.device) -> None:
        self.cells: tuple[FitCell, ...] = work.cells
        first = self.cells[0]
        self.network = first.network.build(store).to(device)
        self.errors: dict[str, str] = {}
        self.batches, self.smallest = Batches(first.title), SmallestBatch()
        self.panels = dict(self._panels())
        sources = {"train": first.train, "val": first.val}
        self.images: dict[str, ImageSet] = {
            role: s.open(store) for role, s in sources.items() if s and role in work.roles
        }
        head, self.memory = self.network.head, Memory(partial(store.scratch, work.id))
        self.tables = {role: Table(len(images), head, self.memory) for role, images in self.images.items()}
        self.reduced = dict(self._reduced())
        self.needs = {"train": self._needs("train"), "val": self._needs("val") | self._needs(None) | {"logits"}}
        """Columns of the tables by role; reductions read more."""

    def _panels(self) -> Iterator[tuple[str, Panel]]:
        """Yield panels with copies of the detectors; a detector that cannot be copied is recorded as failed."""
        for cell in self.cells:
            panel = attempt(partial(cell.panel, self.network))
            if isinstance(panel, str):
                self.errors[cell.id] = panel
            else:
                yield cell.id, panel

    def _reduced(self) -> Iterator[tuple[str, Reduced]]:
        """Yield what the detectors with a reduction are fitted on; one that cannot be is recorded as failed."""
        for cell in self.cells if "train" in self.images else ():
            if cell.id in self.panels:
                found = attempt(partial(self._reduce, cell))
                if isinstance(found, Reduced):
                    yield cell.id, found
                elif found is not None:
                    self.errors[cell.id] = found

    def _reduce(self, cell: FitCell) -> Reduced | None:
        panel, images = self.panels[cell.id], self.images["train"]
        panel.check_fit("train", images)
        return reduce_fit(panel.detectors[MEMBER], images.labels, len(images), self.network.head, self.memory)

    def _needs(self, split: Split | None) -> frozenset[str]:
        reduced = self.reduced if split == "train" else ()
        return frozenset().union(*(panel.needs(split) for cell, panel in self.panels.items() if cell not in reduced))

    def run(self, chunk: Chunk, progress: Progress) -> Arrays:
        reducing = self._reducing(chunk.role)
        read, parts = self.needs[chunk.role].union(*(self.reduced[cell.id].needs for cell in reducing)), []
        results = Arrays()
        for part in chunks(chunk.stop - chunk.start):
            batch = self.images[chunk.role].batch(range(chunk.start + part.start, chunk.start + part.stop))
            parts += self.batches.map(len(batch), partial(self._forward, batch, read))
            for cell in self._perturbing(chunk.role):  # on the val split, whose chunks are one batch
                results |= self._perturbed_scores(cell, batch)
            progress(len(batch))
        activations = joined(parts)
        columns = columns_of(activations, self.needs[chunk.role])
        for cell in reducing:
            results |= self._reduced_part(cell, chunk, activations)
        return results | {name: rows.numpy() for name, rows in columns.items()} | self.batches.note

    def _forward(self, batch: Tensor, read: frozenset[str], rows: slice) -> Activations:
        return forward(self.network, batch[rows], read)

    def _reducing(self, role: str) -> list[FitCell]:
        """Return the cells whose detector keeps little of these images."""
        return [cell for cell in self.cells if cell.id in self.reduced and role == "train"]

    def _reduced_part(self, cell: FitCell, chunk: Chunk, activations: Activations) -> Arrays:
        with activity.computing(cell), torch.inference_mode():
            kept = attempt(lambda: self.reduced[cell.id].columns(chunk.start, activations))
        if isinstance(kept, str):
            return {error_key(cell.id): encode_error(kept)}
        return {f"{_reduced_prefix(cell)}{name}": value.numpy() for name, value in kept.items()}

    def _perturbing(self, role: str) -> list[FitCell]:
        """Return the cells whose detector scores these images by perturbed passes without being fitted."""
        return [cell for cell in self.cells if cell.id in self.panels and _perturbs_unfitted(cell) and role == "val"]

    def _perturbed_scores(self, cell: FitCell, batch: Tensor) -> Arrays:
        with activity.computing(cell):
            answer = attempt(lambda: self.panels[cell.id].score_perturbing(batch)[MEMBER])
        return {error_key(cell.id): encode_error(answer)} if isinstance(answer, str) else {_score_column(cell): answer}

    def collect(self, chunk: Chunk, results: Arrays) -> None:
        results = self.smallest.see(results)
        for cell in self._perturbing(chunk.role):
            if _score_column(cell) not in results:
                self.errors.setdefault(cell.id, decode_error(results[error_key(cell.id)]))
        for cell in self._reducing(chunk.role):
            self._collect_reduced(cell, chunk, results)
        needed = self._columns(chunk.role)
        columns = {name: torch.from_numpy(rows) for name, rows in results.items() if name in needed}
        self.tables[chunk.role].put(chunk.start, columns)

    def _collect_reduced(self, cell: FitCell, chunk: Chunk, results: Arrays) -> None:
        prefix = _reduced_prefix(cell)
        kept = {n.removeprefix(prefix): torch.from_numpy(rows) for n, rows in results.items() if n.startswith(prefix)}
        if kept:
            self.reduced[cell.id].put(chunk.start, kept)
        else:
            self.errors.setdefault(cell.id, decode_error(results[error_key(cell.id)]))

    def complete(self, chunk: Chunk, results: Arrays) -> bool:
        reduced = map(_reduced_prefix, self._reducing(chunk.role))
        return self._columns(chunk.role) <= results.keys() and all(
            any(n.startswith(p) for n in results) for p in reduced
        )

    def _columns(self, role: str) -> set[str]:
        """Return the columns that every chunk of a role must have."""
        needs = self.needs[role]
        statistics = self.network.statistics_names
        columns = {"logits", "features"} & needs
        for kind in needs.intersection(PER_BLOCK):
            columns |= {f"{kind}:{name}" for name in (self.network.block_names if kind == "blocks" else statistics)}
        if "members" in needs and isinstance(self.network, Ensemble):
            columns.add("members")
        return columns | {_score_column(cell) for cell in self._perturbing(role)}

    def finish(self) -> Iterator[tuple[str, Record | str]]:
        for cell in self.cells:
            with activity.computing(cell):
                yield cell.id, attempt(partial(self._fit, cell))

    def _facts(self) -> dict[str, float]:
        """Return the network's accuracy on the validation images, if these have labels and it has classes."""
        labels = self.images["val"].labels if "val" in self.images else None
        if labels is None or not self.network.classes:
            return {}
        predictions = self.tables["val"].activations().logits.argmax(1).numpy()
        return {"accuracy": float((predictions == labels).mean())}

    def _fit(self, cell: FitCell) -> Record | str:
        """Fit one detector."""
        if cell.id in self.errors:
            return self.errors[cell.id]
        panel = self.panels.pop(cell.id)
        for role, images in self.images.items():
            panel.check_fit(role, images)
            reduced = {MEMBER: self.reduced.pop(cell.id)} if cell.id in self.reduced and role == "train" else {}
            split: Split = "train" if role == "train" else "val"
            panel.fit_from(self.tables[role].activations(), images.labels, split, reduced)
            self.memory.release()
        if "val" in self.images and (_perturbs_unfitted(cell) or not cell.detector.perturbs):
            table = self.tables["val"]
            own = {MEMBER: table.column(_score_column(cell)).numpy()} if _perturbs_unfitted(cell) else {}
            panel.validate(table.activations(), self.images["val"].name, own)
        return self.smallest.noted(Record(self._facts(), {STATE: panel.save}))


def _perturbs_unfitted(cell: FitCell) -> bool:
    """Return True if the detector scores by perturbed passes and is not fitted before."""
    return cell.detector.perturbs and cell.detector.fits_on is None


def _reduced_prefix(cell: FitCell) -> str:
    """Return the prefix of the arrays that a detector with a reduction keeps of a chunk."""
    return f"kept:{cell.id}:"


def _score_column(cell: FitCell) -> str:
    """Return the name of the column of a detector's scores from perturbed passes."""
    return f"scores:{cell.id}"
