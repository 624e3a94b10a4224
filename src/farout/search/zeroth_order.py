"""`zeroth_order`: the black-box l_inf attack of "Evaluation via Generation" (section 5.2)."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from farout.search.catalog import SEARCHES
from farout.search.search import Info, Score, Search
from farout.variations.space import Space


class ZerothOrderState(NamedTuple):
    """Where the chains stand and how they move."""

    z: Tensor
    score: Tensor
    velocity: Tensor
    """In latent units, [C, dim]."""
    done: Tensor
    """Steps taken, [C] int64."""


@SEARCHES.register("zeroth_order")
@dataclasses.dataclass(kw_only=True)
class ZerothOrder(Search):
    """Descends along random directions, with momentum: v ← momentum·v + s·u·(f(x + h·u) − f(x)), x ← x − v.

    The direction u is Gaussian. Where the paper is silent its public code was followed: u is not normalized, the
    difference is one-sided and not divided by h, and the sizes of steps and probes are halved together. A step asks for
    two scores, the probe's and the new state's. It starts at the middle of the cube, which is the unchanged image of
    the variation `pixel`. Otherwise than in that code, probes are clamped to the ball too, so that all that is queried
    counts as found, and halvings come after every `halve_every` steps, not one later.

    `h` and `step_size` are in pixel values: the cube stands for a ball of this `radius` about the image. With radius
    0.5 they are in latent units, for any other variation.
    """

    name = "zeroth_order"
    state = ZerothOrderState
    h: float = 0.005
    """Standard deviation of a probe's displacement per pixel."""
    step_size: float = 0.1
    """Displacement per unit of u and per standard deviation of inlier scores."""
    momentum: float = 0.999
    halve_every: int = 2_000
    """Steps after which step size and h are halved; a tenth of all steps in the paper."""
    radius: float = 0.01
    """That of the variation `pixel`."""

    def __post_init__(self) -> None:
        for name in ("h", "step_size", "radius"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must lie in [0, 1), got {self.momentum}")
        if self.halve_every < 1:
            raise ValueError(f"halve_every must be at least 1, got {self.halve_every}")

    def queries(self, space: Space) -> int:
        return 2

    def scaled(self, std: float) -> Self:
        return dataclasses.replace(self, step_size=self.step_size / std)

    def start(self, space: Space, count: int, rng: torch.Generator) -> Tensor:
        """The middle of the cube; on the sphere, which has none, uniform."""
        return super().start(space, count, rng) if space.domain == "sphere" else torch.full((count, space.dim), 0.5)

    def init(self, space: Space, z: Tensor, score: Tensor) -> ZerothOrderState:
        return ZerothOrderState(z, score, torch.zeros_like(z), torch.zeros_like(score, dtype=torch.int64))

    def step(self, state: Any, space: Space, score: Score, rng: torch.Generator) -> tuple[ZerothOrderState, Info]:
        direction = torch.randn(state.z.shape, generator=rng).to(state.z.device)
        length = 0.5 ** (state.done // self.halve_every).to(state.z.dtype) / (2 * self.radius)
        probe = space.inside(state.z + self.h * length[:, None] * direction)
        probed = score(probe)
        push = self.step_size * length * (probed - state.score)
        velocity = self.momentum * state.velocity + push[:, None].to(state.z.dtype) * direction
        z = space.inside(state.z - velocity)
        found = score(z)
        lower = probed < found
        seen = Info(torch.where(lower[:, None], probe, z), torch.minimum(probed, found), (z != state.z).any(1))
        return ZerothOrderState(z, found, velocity, state.done + 1), seen
