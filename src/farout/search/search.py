"""Search interface: kernels that start chains and take one step of all chains at once; the loop is in walk.py."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import torch
from torch import Tensor

from farout.component import Component
from farout.variations.space import Space

Score = Callable[[Tensor], Tensor]
"""Score function: a detector's scores of latents [C, dim], one per chain: [C] float64. A call queries every chain."""


class State(Protocol):
    """State of the chains: a NamedTuple of all tensors that the next step needs; kernels add fields."""

    @property
    def z(self) -> Tensor:
        """Latents [C, dim]."""

    @property
    def score(self) -> Tensor:
        """Their scores, [C] float64."""

    def _asdict(self) -> dict[str, Any]: ...


class Info(NamedTuple):
    """Queries and moves of one step."""

    z: Tensor
    """Per chain the lowest-scoring of the latents that the step queried, [C, dim]."""
    score: Tensor
    """Score of that latent, [C] float64."""
    moved: Tensor
    """True where the chain moved, [C] bool."""


@dataclasses.dataclass(kw_only=True)
class Search(Component, ABC):
    """Search for the lowest score. Its settings are its fields; chains are rows and independent of each other.

    A subclass sets `state`, a NamedTuple of tensors with at least `z` and `score`, and defines `init` and `step`; a
    step calls `score(latents)` and returns the new state and an `Info`. The shortest example is random_search.py.

    Scores are raw: `scaled` adapts settings in units of standardized scores to a detector. `init` and `step` are
    pure: the same state, score function and generator give the same step. Draw from `rng` on the CPU and move the
    draws to the state's device, so that a chain takes the same path on any device.
    """

    state: ClassVar[type[Any]]
    """NamedTuple type of its states."""

    def queries(self, space: Space) -> int:
        """Return the number of score queries per chain and step."""
        return 1

    def scaled(self, std: float) -> Self:
        """Return the search for scores whose inlier standard deviation is `std` instead of 1."""
        return self

    def start(self, space: Space, count: int, rng: torch.Generator) -> Tensor:
        """Return the chains' starting points: uniform, [count, dim]."""
        return space.uniform(count, rng)

    @abstractmethod
    def init(self, space: Space, z: Tensor, score: Tensor) -> Any:
        """Return the state of chains that start at `z` with these scores."""

    @abstractmethod
    def step(self, state: Any, space: Space, score: Score, rng: torch.Generator) -> tuple[Any, Info]:
        """Take one step of every chain; return the new state and its `Info`."""
