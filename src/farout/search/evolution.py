"""`evolution`: an evolution strategy with restarts; it took a quarter of the queries of `mh` in our benchmarks."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from farout.devices import to_device
from farout.search.catalog import SEARCHES
from farout.search.search import Info, Score, Search
from farout.variations.space import Boundary, Space


class EvolutionState(NamedTuple):
    """State of the chains and their step sizes."""

    z: Tensor
    score: Tensor
    sigma: Tensor
    """Standard deviation of the next proposal, in latent units, [C]."""
    age: Tensor
    """Number of queries since the chain's last start, [C] int64."""


@SEARCHES.register("evolution")
@dataclasses.dataclass(kw_only=True)
class EvolutionStrategy(Search):
    """The (1+1) evolution strategy with the one-fifth success rule (Rechenberg 1973), and restarts.

    A chain starts with `draws` uniform points and continues from the lowest of them. Proposals are Gaussian on all
    coordinates and accepted unless they score higher. An improvement widens the proposals by `factor`, anything else
    narrows them by its fourth root, so that about one in five improves. A chain restarts at a new point once its
    proposals are too fine to matter, since a single basin is seldom the deepest. Only the order of scores matters, not
    their scale.

    Proposals are clamped to the cube by default, since worst cases often lie on its faces.
    """

    name = "evolution"
    state = EvolutionState
    draws: int = 40
    sigma: float = 0.7
    """Standard deviation of the first proposal, as a fraction of that of uniform draws."""
    factor: float = 1.5
    finest: float = 0.01
    """Restart once proposals are shorter than this: the root of `dim` times their standard deviation."""
    boundary: Boundary = "clamp"

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise ValueError(f"draws must be at least 1, got {self.draws}")
        if not self.sigma > 0:
            raise ValueError(f"sigma must be positive, got {self.sigma}")
        if not self.factor > 1:
            raise ValueError(f"factor must be larger than 1, got {self.factor}")
        if not self.finest >= 0:
            raise ValueError(f"finest must not be negative, got {self.finest}; 0 never restarts")
        if self.boundary not in ("clamp", "reflect"):
            raise ValueError(f"boundary must be clamp or reflect, got {self.boundary!r}")

    def init(self, space: Space, z: Tensor, score: Tensor) -> EvolutionState:
        sigma = torch.full_like(z[:, 0], self.sigma * space.spread)
        return EvolutionState(z, score, sigma, torch.ones_like(score, dtype=torch.int64))

    def step(self, state: Any, space: Space, score: Score, rng: torch.Generator) -> tuple[EvolutionState, Info]:
        drawn = to_device(space.uniform(len(state.z), rng), state.z.device).to(state.z)
        noise = to_device(torch.randn(state.z.shape, generator=rng), state.z.device).to(state.z)
        drawing = state.age < self.draws
        near = space.inside(state.z + state.sigma[:, None] * noise, self.boundary)
        proposed = torch.where(drawing[:, None], drawn, near)
        proposed_score = score(proposed)
        accepted = (proposed_score <= state.score) | (state.age == 0)
        z, lowest = (
            torch.where(accepted[:, None], proposed, state.z),
            torch.where(accepted, proposed_score, state.score),
        )
        adapted = state.sigma * torch.where(proposed_score < state.score, self.factor, self.factor**-0.25)
        sigma = torch.where(drawing, state.sigma, adapted.to(state.sigma))
        return self._restart(EvolutionState(z, lowest, sigma, state.age + 1), space), Info(
            proposed, proposed_score, accepted
        )

    def _restart(self, state: EvolutionState, space: Space) -> EvolutionState:
        """Return the state; chains whose proposals are too fine are reset to restart."""
        over = state.sigma * math.sqrt(space.dim) < self.finest
        sigma = torch.where(over, self.sigma * space.spread, state.sigma)
        return state._replace(sigma=sigma, age=torch.where(over, 0, state.age))
