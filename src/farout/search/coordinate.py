"""`coordinate`: coordinate descent by finite differences, the baseline of "Evaluation via Generation", Figure 2."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from farout.search.catalog import SEARCHES
from farout.search.search import Info, Score, Search
from farout.variations.space import Space


class CoordinateState(NamedTuple):
    """State of the chains, and the result of their last probe."""

    z: Tensor
    score: Tensor
    rise: Tensor
    """Change of the score along the coordinate, over `reach`, [C] float64."""
    done: Tensor
    """Steps taken, [C] int64."""


@SEARCHES.register("coordinate")
@dataclasses.dataclass(kw_only=True)
class CoordinateDescent(Search):
    """Coordinate descent: each coordinate in turn is probed at a distance, then moved against the change of the score.

    The paper does not describe its coordinate descent; defaults and moves are those of its public code, which takes
    two scores per coordinate: here the probe and the move are two steps, so that every step is one query. As there,
    a move is made even if it raises the score. Unlike there, a coordinate near the upper face is probed inwards: a
    clamped probe would show no change, and the coordinate would never move again.
    """

    name = "coordinate"
    state = CoordinateState
    reach: float = 0.1
    """Distance of the probe, in latent units."""
    rate: float = 0.05
    """Move per rise of one standard deviation of inlier scores over `reach`, in latent units."""

    def __post_init__(self) -> None:
        if not 0 < self.reach <= 0.5:
            raise ValueError(f"reach must lie in (0, 0.5], got {self.reach}")
        if not self.rate > 0:
            raise ValueError(f"rate must be positive, got {self.rate}")

    def scaled(self, std: float) -> Self:
        return dataclasses.replace(self, rate=self.rate / std)

    def init(self, space: Space, z: Tensor, score: Tensor) -> CoordinateState:
        return CoordinateState(z, score, torch.zeros_like(score), torch.zeros_like(score, dtype=torch.int64))

    def step(self, state: Any, space: Space, score: Score, rng: torch.Generator) -> tuple[CoordinateState, Info]:
        probing = state.done % 2 == 0
        own = torch.arange(space.dim, device=state.done.device)
        axis = (state.done[:, None] // 2 % space.dim == own).long()  # one_hot reads its argument
        direction = self._probe_direction(state.z, axis, space)
        shift = torch.where(probing, direction * self.reach, -self.rate * state.rise)
        proposed = space.inside(state.z + axis * shift[:, None].to(state.z.dtype))
        proposed_score = score(proposed)
        z = torch.where(probing[:, None], state.z, proposed)
        rise = torch.where(probing, direction * (proposed_score - state.score), 0.0)
        after = CoordinateState(z, torch.where(probing, state.score, proposed_score), rise, state.done + 1)
        return after, Info(proposed, proposed_score, (z != state.z).any(1))

    def _probe_direction(self, z: Tensor, axis: Tensor, space: Space) -> Tensor:
        """Return 1 where a probe goes up the coordinate, −1 where it would leave the cube, [C] float64."""
        leaves = ((z * axis).sum(1) + self.reach > 1) & (space.domain == "cube")
        return torch.where(leaves, -1.0, 1.0).double()
