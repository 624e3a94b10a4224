"""Latent spaces: the unit cube and the unit sphere."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

Domain = Literal["cube", "sphere"]
Boundary = Literal["clamp", "reflect"]


class Space(NamedTuple):
    """Latent space: the unit cube [0, 1]^dim, or the unit sphere in dim dimensions."""

    dim: int
    domain: Domain = "cube"

    def uniform(self, count: int, rng: torch.Generator) -> Tensor:
        """Draw `count` uniform points, [count, dim]."""
        if self.domain == "sphere":
            return F.normalize(torch.randn(count, self.dim, generator=rng))
        return torch.rand(count, self.dim, generator=rng)

    def inside(self, z: Tensor, boundary: Boundary = "clamp") -> Tensor:
        """Project points into the space: normalized on the sphere; clamped to the cube or reflected at its faces."""
        if self.domain == "sphere":
            return F.normalize(z)
        if boundary == "clamp":
            return z.clamp(0, 1)
        folded = z.remainder(2)
        return torch.where(folded > 1, 2 - folded, folded)

    @property
    def spread(self) -> float:
        """Standard deviation of one coordinate of a uniform point."""
        return math.sqrt(1 / self.dim if self.domain == "sphere" else 1 / 12)
