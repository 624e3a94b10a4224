"""Where latents live: the unit cube or the unit sphere."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

Domain = Literal["cube", "sphere"]
Boundary = Literal["clamp", "reflect"]


class Space(NamedTuple):
    """The unit cube [0, 1]^dim, or the unit sphere in dim dimensions."""

    dim: int
    domain: Domain = "cube"

    def uniform(self, count: int, rng: torch.Generator) -> Tensor:
        """`count` points drawn uniformly, [count, dim]."""
        if self.domain == "sphere":
            return F.normalize(torch.randn(count, self.dim, generator=rng))
        return torch.rand(count, self.dim, generator=rng)

    def inside(self, z: Tensor, boundary: Boundary = "clamp") -> Tensor:
        """Points brought back: on the sphere scaled to length one; in the cube clamped to its faces or reflected."""
        if self.domain == "sphere":
            return F.normalize(z)
        if boundary == "clamp":
            return z.clamp(0, 1)
        folded = z.remainder(2)
        return torch.where(folded > 1, 2 - folded, folded)

    @property
    def spread(self) -> float:
        """The standard deviation of a coordinate of a uniform point."""
        return math.sqrt(1 / self.dim if self.domain == "sphere" else 1 / 12)
