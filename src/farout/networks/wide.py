"""Wide residual networks for small images (Zagoruyko & Komodakis 2016)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from farout.networks.base import NETWORKS, convolution, he_initialize


class PreactivationBlock(nn.Module):
    """Batch norm and ReLU before each of two 3×3 convolutions (Zagoruyko & Komodakis 2016, figure 1c).

    If the shape changes, the shortcut is a 1×1 convolution of the activated input, as in the authors' code.
    """

    def __init__(self, inputs: int, width: int, stride: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout
        self.bn1, self.conv1 = nn.BatchNorm2d(inputs), convolution(inputs, width, 3, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(width), convolution(width, width)
        self.shortcut = None if inputs == width else convolution(inputs, width, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.bn1(x), inplace=True)
        out = F.dropout(F.relu(self.bn2(self.conv1(active)), inplace=True), self.dropout, self.training)
        return self.conv2(out) + (x if self.shortcut is None else self.shortcut(active))  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return f"dropout={self.dropout}" if self.dropout else ""


class WideResNet(nn.Module):
    """WRN-depth-factor (Zagoruyko & Komodakis 2016, table 1): depth = 6n + 4, n blocks per stage.

    width: channels of the stem; the stages have `factor`, 2 and 4 times `factor` as many.
    dropout: probability of dropping a value between the convolutions of a block (section 2.4).
    """

    block_names = ("layer1", "layer2", "layer3")

    def __init__(
        self, depth: int, factor: int, *, classes: int, side: int, channels: int, width: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.side = side
        count, first = (depth - 4) // 6, factor * width
        self.conv1 = convolution(channels, width)
        self.layer1 = _stage(count, width, first, 1, dropout)
        self.layer2 = _stage(count, first, 2 * first, 2, dropout)
        self.layer3 = _stage(count, 2 * first, 4 * first, 2, dropout)
        self.bn1 = nn.BatchNorm2d(4 * first)
        self.linear = nn.Linear(4 * first, classes)
        he_initialize(self)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer3(self.layer2(self.layer1(self.conv1(x))))
        x = F.relu(self.bn1(x), inplace=True)
        return self.linear(x.mean((2, 3)))  # type: ignore[no-any-return]


def _stage(count: int, inputs: int, width: int, stride: int, dropout: float) -> nn.Module:
    first = PreactivationBlock(inputs, width, stride, dropout)
    return nn.Sequential(first, *(PreactivationBlock(width, width, 1, dropout) for _ in range(count - 1)))


@NETWORKS.register("wrn28_10")
def wrn28_10(classes: int, side: int, channels: int, width: int = 16) -> nn.Module:
    """WRN-28-10 of Zagoruyko & Komodakis 2016."""
    return WideResNet(28, 10, classes=classes, side=side, channels=channels, width=width)


@NETWORKS.register("wrn40_2")
def wrn40_2(classes: int, side: int, channels: int, width: int = 16) -> nn.Module:
    """WRN-40-2 of Zagoruyko & Komodakis 2016."""
    return WideResNet(40, 2, classes=classes, side=side, channels=channels, width=width)
