"""DenseNet-121 for small images (Huang et al. 2017): bottlenecks and compression, a 3×3 stem of stride 1."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farout.networks.base import NETWORKS, convolution, he_initialize

DEPTHS = (6, 12, 24, 16)
"""Number of layers of each dense block (Huang et al. 2017, table 1)."""


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


@NETWORKS.register("densenet121")
class DenseNet(nn.Module):
    """DenseNet-121 of Huang et al. 2017, table 1, with a stem without strides and pooling.

    width: channels of the stem, 2k for the growth rate k, the number of channels that every layer adds (k = 32).
    """

    block_names = ("dense1", "dense2", "dense3", "dense4")

    def __init__(self, classes: int, side: int, channels: int, width: int = 64) -> None:
        super().__init__()
        if width % 2:
            raise ValueError(f"densenet121: width is twice the growth rate, expected an even number, got {width}")
        self.side, growth = side, width // 2
        self.conv1 = convolution(channels, width)
        for stage, depth in enumerate(DEPTHS, start=1):
            layers = [DenseLayer(width + growth * index, growth) for index in range(depth)]
            self.add_module(f"dense{stage}", nn.Sequential(*layers))
            width += growth * depth
            if stage < len(DEPTHS):
                self.add_module(f"transition{stage}", transition(width))
                width //= 2
        self.bn1, self.linear = nn.BatchNorm2d(width), nn.Linear(width, classes)
        he_initialize(self)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        for stage in range(1, len(DEPTHS) + 1):
            x = self.get_submodule(f"dense{stage}")(x)
            if stage < len(DEPTHS):
                x = self.get_submodule(f"transition{stage}")(x)
        x = F.relu(self.bn1(x), inplace=True)
        return self.linear(x.mean((2, 3)))  # type: ignore[no-any-return]
