"""Search loop: runs any search step by step and tracks the best latents; it can stop and resume at any step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout import rng
from farout.search.search import Info, Score, Search
from farout.variations.space import Space

CHAINS = 256
"""Chains per chunk: the unit of randomness, of progress and of parallel work."""


class Walk(NamedTuple):
    """Result of a chunk of chains after some steps; holds all that is needed to resume."""

    steps: int
    state: Any
    best_z: Tensor
    """Lowest-scoring latent queried by each chain, including its start, [C, dim]."""
    best: Tensor
    """Raw score of that latent, [C] float64."""
    start: Tensor
    """Score of the first latent, [C] float64."""
    moves: Tensor
    """Number of steps in which the chain moved, [C] int64."""
    last_move: Tensor
    """Last step in which the chain moved, [C] int64; 0 if it never moved."""
    sums: Tensor
    """Sums of coordinates and of their squares over all states, [2, C, dim] float64."""
    trace: Tensor
    """Best score after at most this many queries, for every mark: [C, K] float64."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all fields as arrays by name, for a file."""
        tensors = {name: value for name, value in self._asdict().items() if isinstance(value, Tensor)}
        inner = {f"state:{name}": value for name, value in self.state._asdict().items()}
        arrays = {name: value.detach().cpu().numpy() for name, value in (tensors | inner).items()}
        return {**arrays, "steps": np.array(self.steps)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], search: Search, device: torch.device) -> Walk:
        """Build a walk from the result of `arrays`."""
        tensors = {name: torch.from_numpy(value.copy()).to(device) for name, value in arrays.items() if name != "steps"}
        inner = {name.removeprefix("state:"): tensors.pop(name) for name in list(tensors) if name.startswith("state:")}
        return cls(int(arrays["steps"]), search.state(**inner), **tensors)


def walk(
    search: Search,
    space: Space,
    score: Score,
    chains: int,
    steps: int,
    *,
    seed: int,
    first: int = 0,
    marks: Sequence[int] = (),
    device: str | torch.device = "cpu",
    resume: Walk | None = None,
) -> Iterator[Walk]:
    """Yield the walk after its start and after every step, until `steps` are done; with `resume`, continue from there.

    first: number of the first chain. The randomness of a step depends on it, on `seed` and on the step, so that chains
    take the same path wherever they were interrupted.
    marks: increasing numbers of queries per chain at which the best score is traced.
    The trace is shared between the yielded walks and filled in place; everything else in a walk is immutable.
    """
    if resume is None:
        z = search.start(space, chains, rng.generator(seed, "search", first, "start")).to(device)
        resume = _initial_walk(search.init(space, z, score(z)), len(marks))
        yield resume
    current, per_step, counts = resume, search.queries(space), np.asarray(marks, dtype=np.int64)
    while current.steps < steps:
        state, info = search.step(current.state, space, score, rng.generator(seed, "search", first, current.steps))
        current = _update(current, state, info, counts, 1 + (current.steps + 1) * per_step)
        yield current


def _initial_walk(state: Any, marks: int) -> Walk:
    z, score = state.z, state.score
    moments = torch.stack([z.double(), z.double().square()])
    none = torch.zeros(len(z), dtype=torch.int64, device=z.device)
    trace = score[:, None].repeat(1, marks)
    return Walk(0, state, z, score, score, none, none, moments, trace)


def _update(walk: Walk, state: Any, info: Info, marks: NDArray[np.int64], queries: int) -> Walk:
    better = info.score < walk.best
    best = torch.where(better, info.score, walk.best)
    walk.trace[:, int(np.searchsorted(marks, queries)) :] = best[:, None]
    z = state.z.double()
    return Walk(
        walk.steps + 1,
        state,
        torch.where(better[:, None], info.z, walk.best_z),
        best,
        walk.start,
        walk.moves + info.moved,
        torch.where(info.moved, walk.steps + 1, walk.last_move),
        walk.sums + torch.stack([z, z.square()]),
        walk.trace,
    )


class Diagnostics(NamedTuple):
    """Exploration statistics, one value per chain."""

    accepted: NDArray[np.float64]
    """Fraction of steps in which the chain moved."""
    exploration: NDArray[np.float64]
    """Standard deviation of the states over that of uniform draws: 1 covers the space, 0 never moved."""
    stuck: NDArray[np.bool_]
    """True where the chain did not move in the second half of its steps."""


def diagnose(walk: Walk, space: Space) -> Diagnostics:
    """Compute the exploration statistics of a walk."""
    means, squares = walk.sums / (walk.steps + 1)
    variance = (squares - means.square()).clamp_min(0).mean(1)
    exploration = variance.sqrt() / space.spread
    stuck = walk.last_move <= walk.steps // 2 if walk.steps else torch.zeros_like(walk.moves, dtype=torch.bool)
    accepted = walk.moves.double() / max(1, walk.steps)
    return Diagnostics(accepted.cpu().numpy(), exploration.cpu().numpy(), stuck.cpu().numpy())


def marks_for(queries: int, count: int = 64) -> list[int]:
    """Return at most `count` numbers of queries from 1 to `queries`, evenly spaced on a logarithmic axis."""
    return sorted({round(mark) for mark in np.geomspace(1, queries, count)})
