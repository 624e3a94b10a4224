"""Langevin chains of the normalized autoencoder, and their replay buffer (Yoon et al. 2021, section 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

Energy = Callable[[Tensor], Tensor]
"""Function of positions [B, …] that returns energies [B]."""


class Chain(NamedTuple):
    """Settings of a chain: x ← project(x − step_size · clipped ∇E(x) + noise(t) · ε)."""

    steps: int
    step_size: float
    noise: float
    anneals: bool
    """True to divide the noise by t from the third step on (t = 2, …)."""
    project: Callable[[Tensor], Tensor]
    clip: float | None = None
    """Largest norm of a gradient's rows, along the last axis."""

    def noise_at(self, step: int) -> float:
        """Return the standard deviation of the noise of step 0, 1, …"""
        return self.noise / max(step, 1) if self.anneals else self.noise

    def run(self, positions: Tensor, energy: Energy) -> Tensor:
        """Return the last positions of chains that start at these; noise comes from torch's global generators."""
        for step in range(self.steps):
            positions = positions.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(energy(positions).sum(), positions)
            drift = self.step_size * (gradient if self.clip is None else clip_rows(gradient, self.clip))
            moved = positions.detach() - drift + self.noise_at(step) * torch.randn_like(positions)
            positions = self.project(moved)
        return positions.detach()


def clip_rows(gradient: Tensor, largest: float) -> Tensor:
    """Return the gradient with every row (last axis) scaled to at most this norm, as in the authors' code."""
    norms = gradient.norm(dim=-1, keepdim=True)
    clipped: Tensor = gradient * (largest / norms.clamp(min=largest))
    return clipped


def latent_chain(steps: int) -> Chain:
    """Return the chain on the sphere of latents (on-manifold initialization)."""
    return Chain(steps, step_size=1.0, noise=0.02, anneals=False, project=F.normalize)


def data_chain(steps: int) -> Chain:
    """Return the chain on images."""
    return Chain(steps, step_size=10.0, noise=0.02, anneals=True, project=lambda x: x.clamp(0, 1), clip=0.01)


class ReplayBuffer:
    """Last latents of earlier chains, first in, first out."""

    def __init__(self, size: int, latent: int, replayed: float = 0.95) -> None:
        self.size, self.replayed = size, replayed
        self.latents = torch.empty(0, latent, 1, 1)

    def draw(self, count: int, generator: torch.Generator, device: torch.device) -> Tensor:
        """Return starts of chains on the sphere: with probability `replayed` from the buffer, else new ones."""
        starts = F.normalize(torch.randn(count, *self.latents.shape[1:], generator=generator)).to(device)
        old = (torch.rand(count, generator=generator) < self.replayed).to(device)
        if not len(self.latents):
            return starts
        picked = torch.randint(len(self.latents), (count,), generator=generator)
        return torch.where(old[:, None, None, None], self.latents.to(device)[picked.to(device)], starts)

    def push(self, latents: Tensor) -> None:
        """Add latents; the oldest leave a full buffer."""
        self.latents = torch.cat([self.latents.to(latents.device), latents])[-self.size :]
