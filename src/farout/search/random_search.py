"""`random`: uniform draws, the baseline that any search must beat at equal queries."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from farout.devices import to_device
from farout.search.catalog import SEARCHES
from farout.search.metropolis import MHState
from farout.search.search import Info, Score, Search
from farout.variations.space import Space


@SEARCHES.register("random")
@dataclasses.dataclass(kw_only=True)
class RandomSearch(Search):
    """Random search: every step draws a new uniform latent."""

    name = "random"
    state = MHState

    def init(self, space: Space, z: Tensor, score: Tensor) -> MHState:
        return MHState(z, score)

    def step(self, state: Any, space: Space, score: Score, rng: torch.Generator) -> tuple[MHState, Info]:
        drawn = to_device(space.uniform(len(state.z), rng), state.z.device)
        scores = score(drawn)
        return MHState(drawn, scores), Info(drawn, scores, torch.ones_like(scores, dtype=torch.bool))
