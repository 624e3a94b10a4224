"""`mh`: Metropolis–Hastings, the search of "Evaluation via Generation" (section 4.3 and appendix D.1)."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from farout.devices import to_device
from farout.search.catalog import SEARCHES
from farout.search.search import Info, Score, Search
from farout.variations.space import Boundary, Space


class MHState(NamedTuple):
    """State of the chains."""

    z: Tensor
    score: Tensor


@SEARCHES.register("mh")
@dataclasses.dataclass(kw_only=True)
class MetropolisHastings(Search):
    """Metropolis–Hastings sampler of p(z) ∝ exp(−f(g(z)) / T), eq. 5: a Gaussian random walk on all coordinates.

    A proposal is accepted with probability min(1, exp((f(z) − f(z')) / T)); appendix D.1 prints the opposite sign,
    which would raise the score. At the faces of the cube a proposal is clamped, as in the paper's public code; only
    `reflect` keeps detailed balance, since clamping accumulates proposals on the faces. On the sphere a proposal is
    normalized to length one, which keeps detailed balance. Defaults are the paper's.
    """

    name = "mh"
    state = MHState
    sigma: float = 0.1
    """Standard deviation of the proposal, in latent units."""
    temperature: float = 1.0
    """T, in standard deviations of inlier scores; infinity accepts every proposal."""
    boundary: Boundary = "clamp"

    def __post_init__(self) -> None:
        if not self.sigma > 0:
            raise ValueError(f"sigma must be positive, got {self.sigma}")
        if not self.temperature > 0:
            raise ValueError(f"temperature must be positive, got {self.temperature}")
        if self.boundary not in ("clamp", "reflect"):
            raise ValueError(f"boundary must be clamp or reflect, got {self.boundary!r}")

    def scaled(self, std: float) -> Self:
        return dataclasses.replace(self, temperature=self.temperature * std)

    def init(self, space: Space, z: Tensor, score: Tensor) -> MHState:
        return MHState(z, score)

    def step(self, state: Any, space: Space, score: Score, rng: torch.Generator) -> tuple[MHState, Info]:
        noise = to_device(torch.randn(state.z.shape, generator=rng), state.z.device)
        proposed = space.inside(state.z + self.sigma * noise, self.boundary)
        proposed_score = score(proposed)
        uniform = torch.rand(len(proposed_score), generator=rng, dtype=torch.float64)
        accepted = to_device(uniform, proposed_score.device).log() < (state.score - proposed_score) / self.temperature
        z, lowest = (
            torch.where(accepted[:, None], proposed, state.z),
            torch.where(accepted, proposed_score, state.score),
        )
        return MHState(z, lowest), Info(proposed, proposed_score, accepted & (proposed != state.z).any(1))
