"""Glow's flow: a bijection between images and independent standard normal variables."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farout.detectors.trained.density import Density, dequantize
from farout.detectors.trained.glow.layers import ActNorm, Coupling, Invertible, Logit, Mixing, NormedConvolution, Split

VALUES = 256
"""Values of an 8-bit channel."""


class Flow(Density):
    """Multi-scale flow: per level a squeeze, `depth` steps of flow, and a split after all levels but the last."""

    def __init__(self, channels: int, side: int, levels: int, depth: int, width: int) -> None:
        super().__init__()
        self.shape = (channels, side, side)
        self.logit = Logit()
        self.levels, self.splits = nn.ModuleList(), nn.ModuleList()
        self.latent_shapes: list[tuple[int, int, int]] = []
        for level in range(levels):
            channels, side = 4 * channels, side // 2
            self.levels.append(nn.ModuleList(one for _ in range(depth) for one in flow_step(channels, width)))
            if level < levels - 1:
                self.splits.append(Split(channels))
                channels //= 2
            self.latent_shapes.append((channels, side, side))

    def forward(self, images: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return the latents, one tensor per level, and the log-determinant of the whole map, [B]."""
        hidden, log_det = self.logit(images)
        latents = []
        for number, level in enumerate(self.levels):
            hidden = F.pixel_unshuffle(hidden, 2)
            for layer in level:  # type: ignore[attr-defined]
                hidden, more = layer(hidden)
                log_det = log_det + more
            if number < len(self.splits):
                hidden, latent, more = self.splits[number](hidden)
                latents.append(latent)
                log_det = log_det + more
        return [*latents, hidden], log_det

    def inverse(self, latents: Sequence[Tensor]) -> Tensor:
        """Return the images of these latents."""
        hidden = latents[-1]
        for number in reversed(range(len(self.levels))):
            if number < len(self.splits):
                hidden = self.splits[number].inverse(hidden, latents[number])  # type: ignore[operator]
            for layer in reversed(self.levels[number]):  # type: ignore[call-overload]
                hidden = layer.inverse(hidden)
            hidden = F.pixel_shuffle(hidden, 2)
        return self.logit.inverse(hidden)

    def log_likelihood(self, images: Tensor) -> Tensor:
        latents, log_det = self(images)
        flat = torch.cat([latent.flatten(1) for latent in latents], 1)
        log_normal = -0.5 * (flat.square().sum(1) + flat.shape[1] * math.log(2 * math.pi))
        nats: Tensor = log_normal + log_det - flat.shape[1] * math.log(VALUES)
        return nats

    @torch.no_grad()
    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw images [count, C, H, W]; a few values may leave [0, 1]."""
        weight = next(self.parameters())
        shapes = ((count, *shape) for shape in self.latent_shapes)
        return self.inverse([torch.randn(shape, generator=generator).to(weight) for shape in shapes])

    def noisy(self, images: Tensor, generator: torch.Generator) -> Tensor:
        return dequantize(images, generator)

    @torch.no_grad()
    def initialize(self, images: Tensor) -> None:
        """Standardize the outputs of every ActNorm on these images."""
        norms = [module for module in self.modules() if isinstance(module, ActNorm | NormedConvolution)]
        hooks = [one.register_forward_pre_hook(lambda norm, inputs: norm.initialize(*inputs)) for one in norms]
        self(images)
        for hook in hooks:
            hook.remove()


def flow_step(channels: int, width: int) -> tuple[Invertible, Invertible, Invertible]:
    """Return the layers of one step of flow (Kingma & Dhariwal 2018, figure 2a)."""
    return ActNorm(channels), Mixing(channels), Coupling(channels, width)
