"""Networks of BigGAN: residual blocks with spectral norm, of the widths of the authors' code."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farout.generators.biggan.layers import Attention, ConditionalNorm, spectral

Network = TypeVar("Network", bound=nn.Module)
SMALLEST = 4
"""Side of the generator's first feature maps."""

GENERATOR = {
    16: (4, 4, 4),
    32: (4, 4, 4, 4),
    64: (16, 16, 8, 4, 2),
    128: (16, 16, 8, 4, 2, 1),
    256: (16, 16, 8, 8, 4, 2, 1),
    512: (16, 16, 8, 8, 4, 2, 1, 1),
}
"""Channels of the generator at every resolution from 4 px, in multiples of the width, by side."""

DISCRIMINATOR = {
    16: ((4, 4, 4, 4), 2),
    32: ((4, 4, 4, 4), 2),
    64: ((1, 2, 4, 8, 16), 4),
    128: ((1, 2, 4, 8, 16, 16), 5),
    256: ((1, 2, 4, 8, 8, 16, 16), 6),
    512: ((1, 1, 2, 4, 8, 8, 16, 16), 7),
}
"""Channels of the discriminator after every block, and the number of its first blocks that halve the side."""


class Shape(NamedTuple):
    """Sizes that both networks share."""

    side: int
    channels: int
    classes: int
    width: int
    attention: int
    """Resolution with self-attention; 0 for none."""
    spectral_eps: float


class GeneratorBlock(nn.Module):
    """Norm, ReLU, nearest × 2, convolution, norm, ReLU, convolution; the shortcut is a 1×1 convolution and × 2.

    (The reference doubles the side before the 1×1 convolution: the same values at four times the cost.)
    """

    def __init__(self, inputs: int, outputs: int, norm: Callable[[int], nn.Module], eps: float) -> None:
        super().__init__()
        self.first_norm, self.second_norm = norm(inputs), norm(outputs)
        self.first = spectral(nn.Conv2d(inputs, outputs, 3, padding=1), eps)
        self.second = spectral(nn.Conv2d(outputs, outputs, 3, padding=1), eps)
        self.shortcut = spectral(nn.Conv2d(inputs, outputs, 1), eps)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        out = self.first(_double(F.relu(self.first_norm(x, condition))))
        out = self.second(F.relu(self.second_norm(out, condition)))
        return out + _double(self.shortcut(x))  # type: ignore[no-any-return]


def _double(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2)


class GeneratorNetwork(nn.Module):
    """Images in [−1, 1] from latents and labels.

    shared: size of the class embedding that all norms share; each norm then reads it together with its own chunk of
    the latent, by linear layers. 0: every norm has embeddings of its own, and the whole latent enters at the start.
    """

    def __init__(self, shape: Shape, latent: int, shared: int, norm_eps: float) -> None:
        super().__init__()
        widths = [shape.width * multiple for multiple in GENERATOR[shape.side]]
        self.classes, self.chunks = shape.classes, len(widths) if shared else 1
        if latent % self.chunks:
            raise ValueError(
                f"expected a latent size that {self.chunks} chunks divide, one per block and one for the start, got "
                f"latent={latent}; use {latent // self.chunks * self.chunks} or shared=0"
            )
        eps, condition = shape.spectral_eps, shared + latent // self.chunks

        def conditional(width: int) -> nn.Module:
            if not shared:
                gain, bias = nn.Embedding(shape.classes, width), nn.Embedding(shape.classes, width)
                return ConditionalNorm(width, gain, bias, norm_eps)
            linears = [spectral(nn.Linear(condition, width, bias=False), eps) for _ in range(2)]
            return ConditionalNorm(width, linears[0], linears[1], norm_eps)

        self.embedding = nn.Embedding(shape.classes, shared) if shared else None
        self.start = spectral(nn.Linear(latent // self.chunks, widths[0] * SMALLEST**2), eps)
        self.blocks, self.attention = nn.ModuleList(), nn.ModuleDict()
        for level, (inputs, outputs) in enumerate(pairwise(widths)):
            self.blocks.append(GeneratorBlock(inputs, outputs, conditional, eps))
            if SMALLEST * 2 ** (level + 1) == shape.attention:
                self.attention[str(level)] = Attention(outputs, eps)
        self.norm = nn.BatchNorm2d(widths[-1], eps=norm_eps)
        self.out = spectral(nn.Conv2d(widths[-1], shape.channels, 3, padding=1), eps)

    def forward(self, z: Tensor, labels: Tensor | None = None) -> Tensor:
        """Return the images of latents [B, latent] and labels; None if there is one class only."""
        labels = _labels(labels, z, self.classes)
        start, *conditions = self._conditions(z, labels)
        x = self.start(start).unflatten(1, (-1, SMALLEST, SMALLEST))
        for level, (block, condition) in enumerate(zip(self.blocks, conditions, strict=True)):
            x = block(x, condition)
            if str(level) in self.attention:
                x = self.attention[str(level)](x)
        return torch.tanh(self.out(F.relu(self.norm(x))))

    def _conditions(self, z: Tensor, labels: Tensor) -> list[Tensor]:
        """Return the input of the first layer, and the condition of every block."""
        if self.embedding is None:
            return [z] + [labels] * len(self.blocks)
        embedded = self.embedding(labels)
        start, *chunks = z.chunk(self.chunks, 1)
        return [start] + [torch.cat([embedded, chunk], 1) for chunk in chunks]


class DiscriminatorBlock(nn.Module):
    """[ReLU,] convolution, ReLU, convolution, average pooling; the shortcut is pooling and a 1×1 convolution, or x.

    (The reference pools after the 1×1 convolution in all blocks but the first: the same values at four times the cost.)
    """

    def __init__(self, inputs: int, outputs: int, *, active: bool, down: bool, eps: float) -> None:
        super().__init__()
        self.active, self.down = active, down
        self.first = spectral(nn.Conv2d(inputs, outputs, 3, padding=1), eps)
        self.second = spectral(nn.Conv2d(outputs, outputs, 3, padding=1), eps)
        learned = down or inputs != outputs
        self.shortcut = spectral(nn.Conv2d(inputs, outputs, 1), eps) if learned else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        out = self.second(F.relu(self.first(F.relu(x) if self.active else x)))
        if self.down:
            out, x = F.avg_pool2d(out, 2), F.avg_pool2d(x, 2)
        return out + self.shortcut(x)  # type: ignore[no-any-return]


class DiscriminatorNetwork(nn.Module):
    """Logits [B] of images in [−1, 1] and labels: a linear layer plus the projection on the class (sum-pooled)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.classes = shape.classes
        multiples, halvings = DISCRIMINATOR[shape.side]
        widths, eps = [shape.channels] + [shape.width * multiple for multiple in multiples], shape.spectral_eps
        layers: list[nn.Module] = []
        for level, (inputs, outputs) in enumerate(pairwise(widths)):
            down = level < halvings
            layers.append(DiscriminatorBlock(inputs, outputs, active=level > 0, down=down, eps=eps))
            if down and shape.side // 2 ** (level + 1) == shape.attention:
                layers.append(Attention(outputs, eps))
        self.blocks = nn.Sequential(*layers)
        self.linear = spectral(nn.Linear(widths[-1], 1), eps)
        self.embedding = spectral(nn.Embedding(shape.classes, widths[-1]), eps)

    def forward(self, images: Tensor, labels: Tensor | None = None) -> Tensor:
        """Return the logits of images [B, C, H, W] and labels; None if there is one class only."""
        labels = _labels(labels, images, self.classes)
        features = F.relu(self.blocks(images)).sum((2, 3))
        return self.linear(features)[:, 0] + (self.embedding(labels) * features).sum(1)  # type: ignore[no-any-return]


def _labels(labels: Tensor | None, inputs: Tensor, classes: int) -> Tensor:
    if labels is not None:
        return labels
    if classes > 1:
        raise ValueError(f"this network has {classes} classes: pass the labels of the images")
    return torch.zeros(len(inputs), dtype=torch.long, device=inputs.device)


def initialize(network: Network, *, orthogonal: bool) -> Network:
    """Draw all weights of convolutions, linear layers and embeddings: orthogonal, or from N(0, 0.02)."""
    for part in network.modules():
        if isinstance(part, nn.Conv2d | nn.Linear | nn.Embedding):
            weight = next(value for name, value in part.named_parameters() if name != "bias")
            nn.init.orthogonal_(weight) if orthogonal else nn.init.normal_(weight, 0.0, 0.02)
    return network
