"""DenseNets for small images (Huang et al. 2017): bottlenecks and compression, a 3×3 stem of stride 1."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farout.networks.base import NETWORKS, convolution, he_initialize


class DenseLayer(nn.Module):
    """BN, ReLU, 1×1 to 4k channels, BN, ReLU, 3×3 to k channels, concatenated to the input (DenseNet-B, section 3)."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inputs), convolution(inputs, 4 * growth, 1)
        self.bn2, self.conv2 = nn.BatchNorm2d(4 * growth), convolution(4 * growth, growth)

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv1(F.relu(self.bn1(x), inplace=True))
        out = self.conv2(F.relu(self.bn2(out), inplace=True))
        return torch.cat([x, out], 1)


def transition(inputs: int) -> nn.Module:
    """Build BN, ReLU, 1×1 to half the channels, 2×2 average pooling (DenseNet-C with θ = 0.5, section 3)."""
    return nn.Sequential(
        nn.BatchNorm2d(inputs), nn.ReLU(inplace=True), convolution(inputs, inputs // 2, 1), nn.AvgPool2d(2)
    )


class DenseNet(nn.Module):
    """Dense blocks with transitions between them, global average pooling, one linear head.

    depths: layers of each dense block. width: channels of the stem, 2k for the growth rate k, the number of channels
    that every layer adds.
    """

    def __init__(self, depths: Sequence[int], classes: int, side: int, channels: int, width: int) -> None:
        super().__init__()
        if width % 2:
            raise ValueError(f"a DenseNet's width is twice the growth rate, expected an even number, got {width}")
        self.side, growth = side, width // 2
        self.block_names = tuple(f"dense{stage}" for stage in range(1, len(depths) + 1))
        self.conv1 = convolution(channels, width)
        for stage, depth in enumerate(depths, start=1):
            layers = [DenseLayer(width + growth * index, growth) for index in range(depth)]
            self.add_module(f"dense{stage}", nn.Sequential(*layers))
            width += growth * depth
            if stage < len(depths):
                self.add_module(f"transition{stage}", transition(width))
                width //= 2
        self.bn1, self.linear = nn.BatchNorm2d(width), nn.Linear(width, classes)
        he_initialize(self)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        for stage, name in enumerate(self.block_names, start=1):
            x = self.get_submodule(name)(x)
            if stage < len(self.block_names):
                x = self.get_submodule(f"transition{stage}")(x)
        x = F.relu(self.bn1(x), inplace=True)
        return self.linear(x.mean((2, 3)))  # type: ignore[no-any-return]


@NETWORKS.register("densenet121")
def densenet121(classes: int, side: int, channels: int, width: int = 64) -> nn.Module:
    """DenseNet-121 of Huang et al. 2017, table 1 (k = 32), with a stem without strides and pooling.

    width: channels of the stem, twice the growth rate.
    """
    return DenseNet((6, 12, 24, 16), classes, side, channels, width)


@NETWORKS.register("densenet_bc100")
def densenet_bc100(classes: int, side: int, channels: int, width: int = 24) -> nn.Module:
    """DenseNet-BC of Huang et al. 2017, table 2, with 100 layers and k = 12, for CIFAR.

    width: channels of the stem, twice the growth rate.
    """
    return DenseNet((16, 16, 16), classes, side, channels, width)
