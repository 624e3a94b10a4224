"""Encoder and decoder of the normalized autoencoder for 32 px images (the authors' configuration z32gn).

Modules have the names of the authors' checkpoints, where those have one name only.
"""

from __future__ import annotations

from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

SLOPE = 0.2
"""Slope of leaky ReLUs."""


class EncoderBlock(nn.Module):
    """Residual block without norms (Du & Mordatch 2019); it may halve the side."""

    def __init__(self, inputs: int, outputs: int, halve: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        changes = halve or inputs != outputs
        self.skip = nn.Sequential(nn.Conv2d(inputs, outputs, 1, bias=False)) if changes else nn.Identity()
        self.pool = nn.AvgPool2d(2) if halve else nn.Identity()

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.conv2(F.leaky_relu(self.conv1(inputs), SLOPE))
        return F.leaky_relu(self.pool(hidden + self.skip(inputs)), SLOPE)


class Encoder(nn.Module):
    """Map of images to latents of unit length, [B, latent, 1, 1]."""

    def __init__(self, channels: int, width: int, latent: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, padding=1)
        widths = (width, width, width, 2 * width, 2 * width, 2 * width, 2 * width)
        self.blocks = nn.ModuleList(
            EncoderBlock(before, after, halve=number % 2 == 0)
            for number, (before, after) in enumerate(pairwise(widths))
        )
        self.linear = nn.Conv2d(2 * width, latent, 1)
        xavier(self)

    def forward(self, images: Tensor) -> Tensor:
        hidden = F.leaky_relu(self.conv1(images), SLOPE)
        for block in self.blocks:
            hidden = block(hidden)
        return F.normalize(self.linear(F.adaptive_avg_pool2d(hidden.relu(), 1)))


class DecoderBlock(nn.Module):
    """Residual block with group norms that doubles the side (Miyato et al. 2018, with other norms)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.model = nn.Sequential(
            nn.GroupNorm(1, width), nn.ReLU(), nn.Upsample(scale_factor=2), nn.Conv2d(width, width, 3, padding=1),
            nn.GroupNorm(1, width), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1),
        )  # fmt: skip

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.model(inputs) + F.interpolate(inputs, scale_factor=2)
        return outputs


class Decoder(nn.Module):
    """Map of latents to images: a transposed convolution to the smallest side, then blocks that double it."""

    def __init__(self, channels: int, side: int, width: int, latent: int) -> None:
        super().__init__()
        doublings = 3 if side % 8 == 0 else 2
        self.dense = nn.ConvTranspose2d(latent, width, side // 2**doublings)
        self.model = nn.Sequential(
            *(DecoderBlock(width) for _ in range(doublings)),
            nn.GroupNorm(2, width), nn.ReLU(), nn.Conv2d(width, channels, 3, padding=1), nn.Sigmoid(),
        )  # fmt: skip
        xavier(self)

    def forward(self, latents: Tensor) -> Tensor:
        images: Tensor = self.model(self.dense(latents))
        return images


def xavier(network: nn.Module) -> None:
    """Draw the weights of convolutions as Glorot & Bengio 2010, uniformly."""
    for part in network.modules():
        if isinstance(part, nn.Conv2d | nn.ConvTranspose2d):
            nn.init.xavier_uniform_(part.weight)
