"""Inception-v3 for small images (Szegedy et al. 2016): the paper's modules after a stem without strides."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farout.networks.base import NETWORKS, he_initialize


class Conv(nn.Module):
    """Convolution, batch norm, ReLU. A stride of 2 has no padding, as in the paper's reductions."""

    def __init__(self, inputs: int, width: int, height: int, breadth: int, stride: int = 1) -> None:
        super().__init__()
        padding = (height // 2, breadth // 2) if stride == 1 else 0
        self.conv = nn.Conv2d(inputs, width, (height, breadth), stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(width, eps=1e-3)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)), inplace=True)


class Fork(nn.Module):
    """Branches with the same input, concatenated by channel."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def _pooled(inputs: int, width: int) -> nn.Module:
    return nn.Sequential(nn.AvgPool2d(3, 1, padding=1), Conv(inputs, width, 1, 1))


def mixed(inputs: int, pooled: int) -> nn.Module:
    """Build figure 5 of Szegedy et al. 2016, with the 5×5 branch of the authors' code."""
    return Fork(
        Conv(inputs, 64, 1, 1),
        nn.Sequential(Conv(inputs, 48, 1, 1), Conv(48, 64, 5, 5)),
        nn.Sequential(Conv(inputs, 64, 1, 1), Conv(64, 96, 3, 3), Conv(96, 96, 3, 3)),
        _pooled(inputs, pooled),
    )


def mixed_7x7(inputs: int, width: int) -> nn.Module:
    """Build figure 6 of Szegedy et al. 2016 with n = 7: 7×7 convolutions factorized into 1×7 and 7×1."""
    single = (Conv(inputs, width, 1, 1), Conv(width, width, 1, 7), Conv(width, 192, 7, 1))
    again = (Conv(inputs, width, 1, 1), Conv(width, width, 7, 1), Conv(width, width, 1, 7))
    last = (Conv(width, width, 7, 1), Conv(width, 192, 1, 7))
    return Fork(Conv(inputs, 192, 1, 1), nn.Sequential(*single), nn.Sequential(*again, *last), _pooled(inputs, 192))


def mixed_wide(inputs: int) -> nn.Module:
    """Build figure 7 of Szegedy et al. 2016: branches that end in a 1×3 and a 3×1 convolution in parallel."""

    def ends() -> nn.Module:
        return Fork(Conv(384, 384, 1, 3), Conv(384, 384, 3, 1))

    return Fork(
        Conv(inputs, 320, 1, 1),
        nn.Sequential(Conv(inputs, 384, 1, 1), ends()),
        nn.Sequential(Conv(inputs, 448, 1, 1), Conv(448, 384, 3, 3), ends()),
        _pooled(inputs, 192),
    )


def reduction(inputs: int) -> nn.Module:
    """Build the first reduction of the map's side (Szegedy et al. 2016, figure 10)."""
    twice = (Conv(inputs, 64, 1, 1), Conv(64, 96, 3, 3), Conv(96, 96, 3, 3, stride=2))
    return Fork(Conv(inputs, 384, 3, 3, stride=2), nn.Sequential(*twice), nn.MaxPool2d(3, 2))


def reduction_7x7(inputs: int) -> nn.Module:
    """Build the second reduction, after a factorized 7×7 convolution, as in the authors' code."""
    single = (Conv(inputs, 192, 1, 1), Conv(192, 320, 3, 3, stride=2))
    long = (Conv(inputs, 192, 1, 1), Conv(192, 192, 1, 7), Conv(192, 192, 7, 1), Conv(192, 192, 3, 3, stride=2))
    return Fork(nn.Sequential(*single), nn.Sequential(*long), nn.MaxPool2d(3, 2))


@NETWORKS.register("inception_v3")
class InceptionV3(nn.Module):
    """Inception-v3 (Szegedy et al. 2016, table 1) without strides or pooling in the stem, auxiliary head, dropout."""

    block_names = ("stage1", "stage2", "stage3")

    def __init__(self, classes: int, side: int, channels: int) -> None:
        super().__init__()
        self.side = side
        stem = (
            Conv(channels, 32, 3, 3),
            Conv(32, 32, 3, 3),
            Conv(32, 64, 3, 3),
            Conv(64, 80, 1, 1),
            Conv(80, 192, 3, 3),
        )
        self.stem = nn.Sequential(*stem)
        self.stage1 = nn.Sequential(mixed(192, 32), mixed(256, 64), mixed(288, 64))
        self.stage2 = nn.Sequential(reduction(288), *(mixed_7x7(768, width) for width in (128, 160, 160, 192)))
        self.stage3 = nn.Sequential(reduction_7x7(768), mixed_wide(1280), mixed_wide(2048))
        self.linear = nn.Linear(2048, classes)
        he_initialize(self)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stage3(self.stage2(self.stage1(self.stem(x))))
        return self.linear(x.mean((2, 3)))  # type: ignore[no-any-return]
