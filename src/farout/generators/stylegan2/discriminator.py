"""Discriminator of StyleGAN2: plain up to 32 px, residual above, with the minibatch standard deviation at 4 px."""

from __future__ import annotations

import math
from itertools import pairwise

from torch import Tensor, nn

from farout.generators.stylegan2.layers import Convolution, Linear, minibatch_deviation
from farout.generators.stylegan2.synthesis import SMALLEST, Mapping, widths

CLASS_LAYERS = 8
"""Layers of the mapping of classes."""


class Block(nn.Module):
    """Two convolutions, the second to half the side; residual: both branches × √½."""

    def __init__(self, inputs: int, outputs: int, *, residual: bool) -> None:
        super().__init__()
        self.first = Convolution(inputs, inputs, 3)
        self.second = Convolution(inputs, outputs, 3, down=True)
        self.shortcut = Convolution(inputs, outputs, 1, down=True, plain=True) if residual else None

    def forward(self, x: Tensor) -> Tensor:
        if self.shortcut is None:
            return self.second(self.first(x))  # type: ignore[no-any-return]
        gain = math.sqrt(0.5)
        return self.second(self.first(x), gain) + self.shortcut(x, gain)  # type: ignore[no-any-return]


class Discriminator(nn.Module):
    """Logits [B] of images in [−1, 1]; with classes, the inner product with the mapped class (projection)."""

    def __init__(
        self, side: int, channels: int, *, width: int, style: int, residual: bool, group: int, classes: int = 0
    ) -> None:
        super().__init__()
        self.group = group
        per_side = widths(side, width)
        self.from_image = Convolution(channels, per_side[side], 1)
        sides = sorted(per_side, reverse=True)
        self.blocks = nn.Sequential(*(Block(per_side[a], per_side[b], residual=residual) for a, b in pairwise(sides)))
        last = per_side[SMALLEST]
        self.last = Convolution(last + 1, last, 3)
        self.hidden = Linear(last * SMALLEST**2, last, active=True)
        self.mapping = Mapping(0, classes, style, CLASS_LAYERS) if classes else None
        self.out = Linear(last, style if classes else 1)

    def forward(self, images: Tensor, labels: Tensor | None = None) -> Tensor:
        x = self.blocks(self.from_image(images))
        x = self.last(minibatch_deviation(x, self.group))
        out: Tensor = self.out(self.hidden(x.flatten(1)))
        if self.mapping is None:
            return out[:, 0]
        return (out * self.mapping(None, labels)).sum(1) / math.sqrt(out.shape[1])  # type: ignore[no-any-return]
