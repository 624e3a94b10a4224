"""Layers of PixelCNN++ (Salimans et al. 2017, section 2 and the authors' code): shifted convolutions, gated blocks.

Stream u sees the rows above a pixel; stream ul the rows above and the pixels to the left.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm


class Kernel(NamedTuple):
    """Size of a kernel that sees no later row, and where its last row lies in the columns."""

    height: int
    width: int
    centered: bool
    """True if it sees as many columns to the right as to the left; else none to the right."""

    @property
    def left(self) -> int:
        """Columns of padding on the left."""
        return self.width // 2 if self.centered else self.width - 1

    @property
    def right(self) -> int:
        """Columns of padding on the right."""
        return self.width // 2 if self.centered else 0


ABOVE = Kernel(2, 3, True)
"""Kernel of stream u."""
LEFT = Kernel(2, 2, False)
"""Kernel of stream ul."""


class Shifted(nn.Module):
    """Weight-normalized convolution with padding above and at the sides, whose outputs may move down or right."""

    def __init__(
        self, inputs: int, outputs: int, kernel: Kernel, stride: int = 1, move: Literal["", "down", "right"] = ""
    ) -> None:
        super().__init__()
        self.convolution = weight_norm(nn.Conv2d(inputs, outputs, (kernel.height, kernel.width), stride))
        self.padding = (kernel.left, kernel.right, kernel.height - 1, 0)
        self.move = move

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.convolution(F.pad(inputs, self.padding))
        if self.move == "down":
            return F.pad(outputs, (0, 0, 1, -1))
        return F.pad(outputs, (1, -1, 0, 0)) if self.move == "right" else outputs


class ShiftedTransposed(nn.Module):
    """Weight-normalized transposed convolution of stride 2, cropped so that it sees no later row or column."""

    def __init__(self, width: int, kernel: Kernel) -> None:
        super().__init__()
        size = (kernel.height, kernel.width)
        self.convolution = weight_norm(nn.ConvTranspose2d(width, width, size, 2, output_padding=1), dim=1)
        self.crop = (-kernel.right, -kernel.left, 0, 1 - kernel.height)

    def forward(self, inputs: Tensor) -> Tensor:
        return F.pad(self.convolution(inputs), self.crop)


def concat_elu(inputs: Tensor) -> Tensor:
    """Return elu of the inputs and of their negatives, with twice the channels."""
    return F.elu(torch.cat([inputs, -inputs], 1))


def pointwise(inputs: int, outputs: int) -> nn.Module:
    """Return a weight-normalized 1×1 convolution."""
    layer: nn.Module = weight_norm(nn.Conv2d(inputs, outputs, 1))
    return layer


class GatedBlock(nn.Module):
    """Residual block with a gate; `aside` further inputs, each of `width` channels, join through a 1×1 convolution."""

    def __init__(self, width: int, kernel: Kernel, aside: int = 0, dropout: float = 0.5) -> None:
        super().__init__()
        self.first = Shifted(2 * width, width, kernel)
        self.aside = pointwise(2 * aside * width, width) if aside else None
        self.dropout = nn.Dropout2d(dropout)
        self.second = Shifted(2 * width, 2 * width, kernel)

    def forward(self, inputs: Tensor, aside: Tensor | None = None) -> Tensor:
        hidden = self.first(concat_elu(inputs))
        if self.aside is not None and aside is not None:
            hidden = hidden + self.aside(concat_elu(aside))
        values, gates = self.second(self.dropout(concat_elu(hidden))).chunk(2, 1)
        outputs: Tensor = inputs + values * gates.sigmoid()
        return outputs
