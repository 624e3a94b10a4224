"""`evolution`: differential evolution, a population per chain, which comes as low as `mh` with far fewer queries."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import torch
from torch import Tensor

from farout.search.catalog import SEARCHES
from farout.search.search import Info, Score, Search
from farout.search.space import Space


class EvolutionState(NamedTuple):
    """The population of every chain; the chain stands at the member whose turn it was."""

    z: Tensor
    score: Tensor
    members: Tensor
    """[C, population, dim]."""
    scores: Tensor
    """Theirs, [C, population] float64; infinite for a member that is still to be drawn."""
    count: Tensor
    """Queries since the population was begun, [C] int64."""


@SEARCHES.register("evolution")
@dataclasses.dataclass(kw_only=True)
class DifferentialEvolution(Search):
    """Differential evolution (Storn and Price 1997), current-to-best/1 with binomial crossover, one query per step.

    A population begins with uniform draws. Then its members take turns: a member x is challenged by
    x + F·(best − x) + F·(a − b), with a and b two others drawn at random and F drawn anew every time; each coordinate
    is taken from the challenger with probability `crossover`, one of them always. The challenger replaces x unless it
    scores higher. Steps thus shrink with the population itself, at the rate and in the directions that the scores
    allow, without any unit of score or length. A population that has come together begins anew.
    """

    name = "evolution"
    state = EvolutionState
    population: int = 16
    smallest: float = 0.2
    """Lower bound of F."""
    largest: float = 1.0
    """Upper bound of F."""
    crossover: float = 0.9
    collapsed: float = 0.01
    """Begin anew where members spread less than this share of what uniform draws do."""

    def __post_init__(self) -> None:
        if self.population < 4:
            raise ValueError(f"population must be at least 4, got {self.population}")
        if not 0 < self.smallest <= self.largest:
            raise ValueError(f"expected 0 < smallest <= largest, got {self.smallest} and {self.largest}")
        if not 0 <= self.crossover <= 1:
            raise ValueError(f"crossover must lie in [0, 1], got {self.crossover}")
        if not self.collapsed >= 0:
            raise ValueError(f"collapsed must not be negative, got {self.collapsed}; 0 never begins anew")

    def init(self, space: Space, z: Tensor, score: Tensor) -> EvolutionState:
        members = z[:, None].repeat(1, self.population, 1)
        scores = torch.full_like(members[:, :, 0], torch.inf, dtype=torch.float64)
        scores[:, 0] = score
        return EvolutionState(z, score, members, scores, torch.ones_like(score, dtype=torch.int64))

    def step(self, state: Any, space: Space, score: Score, rng: torch.Generator) -> tuple[EvolutionState, Info]:
        rows, turn = torch.arange(len(state.z), device=state.z.device), state.count % self.population
        drawn = space.uniform(len(rows), rng).to(state.z)
        beginning = state.count < self.population
        proposed = torch.where(beginning[:, None], drawn, space.inside(self._challenger(state, turn, rng), "reflect"))
        found = score(proposed)
        taken = found <= state.scores[rows, turn]
        z = torch.where(taken[:, None], proposed, state.members[rows, turn])
        lower = torch.where(taken, found, state.scores[rows, turn])
        members, scores = state.members.clone(), state.scores.clone()
        members[rows, turn], scores[rows, turn] = z, lower
        return self._after(EvolutionState(z, lower, members, scores, state.count + 1), space), Info(
            proposed, found, taken
        )

    def _challenger(self, state: Any, turn: Tensor, rng: torch.Generator) -> Tensor:
        """Who challenges the member whose turn it is, [C, dim]."""
        rows, (chains, dim) = torch.arange(len(turn), device=turn.device), state.z.shape
        lots = torch.rand(chains, self.population, generator=rng).to(turn.device)
        lots[rows, turn] = 2  # comes last, so is not drawn
        a, b = lots.argsort(1)[:, :2].unbind(1)
        weight, keys = torch.rand(chains, 1, generator=rng), torch.rand(chains, dim, generator=rng)
        weight = (self.smallest + (self.largest - self.smallest) * weight).to(state.z)
        changed = (keys < self.crossover) | (keys == keys.amin(1, keepdim=True))
        member, best = state.members[rows, turn], state.members[rows, state.scores.argmin(1)]
        moved = member + weight * (best - member + state.members[rows, a] - state.members[rows, b])
        return torch.where(changed.to(turn.device), moved, member)

    def _after(self, state: EvolutionState, space: Space) -> EvolutionState:
        """The same, or with a population still to be drawn where this one has come together."""
        spread = state.members.var(1).mean(1).sqrt()
        over = (spread < self.collapsed * space.spread) & (state.count >= self.population)
        scores = torch.where(over[:, None], torch.inf, state.scores)
        return state._replace(scores=scores, count=torch.where(over, 0, state.count))
