"""What a search promises: kernels that start chains and take one step, all chains at once, and no loop of their own."""

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
"""The detector's scores of latents [C, dim], one per chain: [C] float64. Every call is a query of every chain."""


class State(Protocol):
    """Where the chains stand: a NamedTuple of tensors, all that the next step needs; kernels add fields."""

    @property
    def z(self) -> Tensor:
        """Latents [C, dim]."""

    @property
    def score(self) -> Tensor:
        """Their scores, [C] float64."""

    def _asdict(self) -> dict[str, Any]: ...


class Info(NamedTuple):
    """What a step has seen."""

    z: Tensor
    """Per chain the lowest-scoring of the latents that the step queried, [C, dim]."""
    score: Tensor
    """Its score, [C] float64."""
    moved: Tensor
    """Has the chain moved? [C] bool."""


@dataclasses.dataclass(kw_only=True)
class Search(Component, ABC):
    """How the lowest score is looked for. Settings are its fields; chains are rows and know nothing of each other.

    One of your own sets `state`, a NamedTuple of tensors with at least `z` and `score`, and writes `init` and `step`; a
    step calls `score(latents)` and returns the new state and an `Info`: see random_search.py, the shortest.

    Scores are raw: `scaled` fits settings that are meant for standardized scores to a detector. `init` and `step` are
    pure: the same state, score function and generator give the same step. Draw from `rng` on the CPU and move what was
    drawn to the state's device, so that a chain takes the same path on any.
    """

    state: ClassVar[type[Any]]
    """The NamedTuple that its states are."""

    def queries(self, space: Space) -> int:
        """How often a step asks for the scores of all chains."""
        return 1

    def scaled(self, std: float) -> Self:
        """The same search where the standard deviation of inlier scores is `std` instead of 1."""
        return self

    def start(self, space: Space, count: int, rng: torch.Generator) -> Tensor:
        """Where chains begin: uniform, [count, dim]."""
        return space.uniform(count, rng)

    @abstractmethod
    def init(self, space: Space, z: Tensor, score: Tensor) -> Any:
        """The state of chains that begin at `z` with these scores."""

    @abstractmethod
    def step(self, state: Any, space: Space, score: Score, rng: torch.Generator) -> tuple[Any, Info]:
        """One step of every chain."""
