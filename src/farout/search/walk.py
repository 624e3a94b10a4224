"""The one loop: any search, step by step, with what it has found so far. It can be left and taken up at any step."""

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
    """What a chunk of chains has found after some steps: all that is needed to go on."""

    steps: int
    state: Any
    best_z: Tensor
    """The lowest-scoring latent that each chain has queried, its start included, [C, dim]."""
    best: Tensor
    """Its raw score, [C] float64."""
    start: Tensor
    """Score of the first latent, [C] float64."""
    moves: Tensor
    """Steps in which the chain moved, [C] int64."""
    last_move: Tensor
    """The last of them, [C] int64; 0 for none."""
    sums: Tensor
    """Sums of coordinates and of their squares over all states, [2, C, dim] float64."""
    trace: NDArray[np.float64]
    """Best score after at most so many queries, for every mark: [C, K]."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays by name, for a file."""
        tensors = {name: value for name, value in self._asdict().items() if isinstance(value, Tensor)}
        inner = {f"state:{name}": value for name, value in self.state._asdict().items()}
        kept = {name: value.detach().cpu().numpy() for name, value in (tensors | inner).items()}
        return {**kept, "trace": self.trace, "steps": np.array(self.steps)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], search: Search, device: torch.device) -> Walk:
        """What `arrays` gave, again."""
        tensors = {name: torch.from_numpy(value).to(device) for name, value in arrays.items() if name not in PLAIN}
        inner = {name.removeprefix("state:"): tensors.pop(name) for name in list(tensors) if name.startswith("state:")}
        return cls(int(arrays["steps"]), search.state(**inner), **tensors, trace=arrays["trace"].copy())


PLAIN = ("steps", "trace")


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
    """The walk after its start and after every step, until `steps` are done; or from where `resume` was left.

    first: the number of the first chain. A step's randomness depends on it, on `seed` and on the step, so chains take
    the same path wherever they were interrupted.
    marks: numbers of queries per chain for which the best score is to be traced.
    The trace is the walk's own and is filled in as it goes on; what else a walk holds never changes.
    """
    if resume is None:
        z = search.start(space, chains, rng.generator(seed, "search", first, "start")).to(device)
        resume = _started(search.init(space, z, score(z)), len(marks))
        yield resume
    current, per_step, counts = resume, search.queries(space), np.asarray(marks, dtype=np.int64)
    while current.steps < steps:
        state, info = search.step(current.state, space, score, rng.generator(seed, "search", first, current.steps))
        current = _after(current, state, info, counts, 1 + (current.steps + 1) * per_step)
        yield current


def _started(state: Any, marks: int) -> Walk:
    z, score = state.z, state.score
    moments = torch.stack([z.double(), z.double().square()])
    none = torch.zeros(len(z), dtype=torch.int64, device=z.device)
    trace = np.repeat(score.cpu().numpy()[:, None], marks, axis=1)
    return Walk(0, state, z, score, score, none, none, moments, trace)


def _after(walk: Walk, state: Any, info: Info, marks: NDArray[np.int64], queries: int) -> Walk:
    better = info.score < walk.best
    best = torch.where(better, info.score, walk.best)
    walk.trace[:, marks >= queries] = best.cpu().numpy()[:, None]
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
    """How well chains have explored, one number per chain."""

    accepted: NDArray[np.float64]
    """Share of steps in which the chain moved."""
    exploration: NDArray[np.float64]
    """Spread of the states over that of uniform draws: 1 has been everywhere, 0 has stayed where it was."""
    stuck: NDArray[np.bool_]
    """Has not moved in the second half of its steps."""


def diagnose(walk: Walk, space: Space) -> Diagnostics:
    """How well the chains of a walk have explored."""
    means, squares = walk.sums / (walk.steps + 1)
    variance = (squares - means.square()).clamp_min(0).mean(1)
    exploration = variance.sqrt() / space.spread
    stuck = walk.last_move <= walk.steps // 2 if walk.steps else torch.zeros_like(walk.moves, dtype=torch.bool)
    accepted = walk.moves.double() / max(1, walk.steps)
    return Diagnostics(accepted.cpu().numpy(), exploration.cpu().numpy(), stuck.cpu().numpy())


def marks_for(queries: int, count: int = 64) -> list[int]:
    """At most `count` numbers of queries from 1 to `queries`, evenly spaced on a logarithmic axis."""
    return sorted({round(mark) for mark in np.geomspace(1, queries, count)})
