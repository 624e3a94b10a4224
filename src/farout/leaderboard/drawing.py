"""Drawn images of a submission, and their scores computed again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from farout.leaderboard.derive import plan_study
from farout.processes import torch_threads
from farout.progress import track
from farout.rng import numpy_generator
from farout.study.cells.score import ScoreCell
from farout.study.cells.search import SearchCell
from farout.study.results import Row, rows_of
from farout.study.sources.found import FoundImages
from farout.study.spec import StudySpec
from farout.study.store import Store
from farout.tensors import CHUNK, chunks

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Scored:
    """Result of a study whose scores can be computed again, image by image."""

    stored: str
    """Identity of the result that holds the scores."""
    cell: ScoreCell
    """Cell that computes them: for a search, scores of the worst cases that it has found."""
    protocol: str
    detector: str


@dataclass(frozen=True)
class Drawn:
    """Scores of drawn images of one result."""

    scored: Scored
    positions: Indices
    stored: NDArray[np.float64]
    computed: NDArray[np.float64]
    spread: float
    """Standard deviation of all stored scores of the result."""

    @property
    def differences(self) -> NDArray[np.float64]:
        """Differences in standard deviations of the scores."""
        return np.abs(self.stored - self.computed) / (self.spread or 1.0)


def scored_results(spec: StudySpec) -> tuple[list[Scored], list[Row]]:
    """Return the results of a study that hold per-image scores, each once, and all rows of its plan."""
    study, entries = plan_study(spec)
    shape = study.trials[0].inliers.test.about.shape
    found: dict[str, Scored] = {}
    for entry in entries:
        cell = entry.cell
        if isinstance(cell, SearchCell):
            again = ScoreCell(cell.subject, FoundImages(cell, shape))
        elif isinstance(cell, ScoreCell):
            again = cell
        else:
            continue
        found.setdefault(cell.id, Scored(cell.id, again, entry.protocol, entry.tags.get("detector", "")))
    return list(found.values()), rows_of(entries)


def draw(counts: Mapping[str, int], sample: int, seed: int) -> dict[str, Indices]:
    """Return positions of images by result: `sample` of all images of all results, drawn without replacement."""
    names, totals = list(counts), np.cumsum(list(counts.values()))
    total = int(totals[-1]) if names else 0
    selected = np.sort(numpy_generator(seed, "leaderboard rerun").permutation(total)[:sample])
    owners = np.searchsorted(totals, selected, side="right")
    starts = totals - np.array(list(counts.values()), np.int64) if names else totals
    return {names[owner]: selected[owners == owner] - starts[owner] for owner in np.unique(owners)}


def compute(results: Iterable[Scored], positions: Mapping[str, Indices], store: Store, device: str) -> Iterator[Drawn]:
    """Yield the drawn images with their stored scores, and with scores computed from weights and images."""
    groups: dict[str, list[Scored]] = {}
    for one in results:
        if one.stored in positions:
            groups.setdefault(one.cell.group, []).append(one)
    for together in track(groups.values(), len(groups), "computing scores again", "groups"):
        with torch_threads(1):
            yield from _group(together, positions, store, torch.device(device))


def _group(
    together: list[Scored], positions: Mapping[str, Indices], store: Store, device: torch.device
) -> Iterator[Drawn]:
    """Yield the drawn images of results that share a forward pass."""
    wanted = np.unique(np.concatenate([positions[one.stored] for one in together]))
    images = together[0].cell.images.open(store)
    score = together[0].cell.subject.open([one.cell.subject for one in together], store, device)
    columns: list[list[NDArray[np.float64]]] = [[] for _ in together]
    for part in chunks(len(wanted), CHUNK):
        for column, ask in zip(columns, score(images.batch(wanted[part])), strict=True):
            column.append(ask())
    for one, column in zip(together, columns, strict=True):
        stored = store.scores(one.stored)
        own = positions[one.stored]
        again = np.concatenate(column)[np.searchsorted(wanted, own)]
        yield Drawn(one, own, stored[own], again, float(np.std(stored)))
