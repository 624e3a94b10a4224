"""`zeroth_order`: the black-box l_inf attack of "Evaluation via Generation" (section 5.2)."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from farout.devices import to_device
from farout.search.catalog import SEARCHES
from farout.search.search import Info, Score, Search
from farout.variations.space import Space


class ZerothOrderState(NamedTuple):
    """State of the chains and their velocities."""

    z: Tensor
    score: Tensor
    velocity: Tensor
    """In latent units, [C, dim]."""
    done: Tensor
    """Steps taken, [C] int64."""


@SEARCHES.register("zeroth_order")
@dataclasses.dataclass(kw_only=True)
class ZerothOrder(Search):
    """Descent along random directions, with momentum: v ← momentum·v + s·u·(f(x + h·u) − f(x)), x ← x − v.

    The direction u is Gaussian. Details that the paper leaves out follow its public code: u is not normalized, the
    difference is one-sided and not divided by h, and step size and h are halved together. A step takes two scores: the
    probe's and the new state's. It starts at the middle of the cube, which is the unchanged image of the variation
    `pixel`. Unlike that code, probes are clamped to the ball too, so that every query may count as the result, and
    halvings come after every `halve_every` steps, not one later.

    `h` and `step_size` are in pixel values: the cube stands for a ball of this `radius` around the image. With radius
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
    """Radius of the variation `pixel`."""

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
        """Return the middle of the cube; uniform points on the sphere."""
        return super().start(space, count, rng) if space.domain == "sphere" else torch.full((count, space.dim), 0.5)

    def init(self, space: Space, z: Tensor, score: Tensor) -> ZerothOrderState:
        return ZerothOrderState(z, score, torch.zeros_like(z), torch.zeros_like(score, dtype=torch.int64))

    def step(self, state: Any, space: Space, score: Score, rng: torch.Generator) -> tuple[ZerothOrderState, Info]:
        direction = to_device(torch.randn(state.z.shape, generator=rng), state.z.device)
        length = 0.5 ** (state.done // self.halve_every).to(state.z.dtype) / (2 * self.radius)
        probe = space.inside(state.z + self.h * length[:, None] * direction)
        probed = score(probe)
        push = self.step_size * length * (probed - state.score)
        velocity = self.momentum * state.velocity + push[:, None].to(state.z.dtype) * direction
        z = space.inside(state.z - velocity)
        proposed_score = score(z)
        lower = probed < proposed_score
        seen = Info(torch.where(lower[:, None], probe, z), torch.minimum(probed, proposed_score), (z != state.z).any(1))
        return ZerothOrderState(z, proposed_score, velocity, state.done + 1), seen
