"""Plain convolutional networks for small images: LeNet-5, AlexNet and VGG."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from farout.networks.base import NETWORKS, he_initialize


@NETWORKS.register("lenet")
class LeNet(nn.Module):
    """LeNet-5 (LeCun et al. 1998, section II.B) with ReLU and max pooling; 28 px are padded to 32 as in the paper.

    For other sides the maps are averaged to 5×5, their size at 28 and 32 px.
    """

    block_names = ("stage1", "stage2")

    def __init__(self, classes: int, side: int, channels: int) -> None:
        super().__init__()
        self.side = side
        padding = 2 if side < 32 else 0
        self.stage1 = nn.Sequential(nn.Conv2d(channels, 6, 5, padding=padding), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.stage2 = nn.Sequential(nn.Conv2d(6, 16, 5), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.fc1, self.fc2, self.linear = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, classes)
        he_initialize(self)

    def forward(self, x: Tensor) -> Tensor:
        x = F.adaptive_avg_pool2d(self.stage2(self.stage1(x)), 5).flatten(1)
        x = F.relu(self.fc2(F.relu(self.fc1(x))))
        return self.linear(x)  # type: ignore[no-any-return]


class Stages(nn.Module):
    """Sequence of stages, global average pooling, one linear head."""

    def __init__(self, stages: Sequence[nn.Module], width: int, classes: int, side: int) -> None:
        super().__init__()
        self.side = side
        self.block_names = tuple(f"stage{i}" for i in range(1, len(stages) + 1))
        for name, stage in zip(self.block_names, stages, strict=True):
            self.add_module(name, stage)
        self.linear = nn.Linear(width, classes)
        he_initialize(self)

    def forward(self, x: Tensor) -> Tensor:
        for name in self.block_names:
            x = self.get_submodule(name)(x)
        return self.linear(x.mean((2, 3)))  # type: ignore[no-any-return]


def _pool() -> nn.Module:
    """Build 2×2 max pooling that rounds up, so that 28 px and less allow as many poolings as 32 px."""
    return nn.MaxPool2d(2, ceil_mode=True)


@NETWORKS.register("alexnet")
def alexnet(classes: int, side: int, channels: int) -> nn.Module:
    """AlexNet: five convolutions (Krizhevsky et al. 2012; widths of Krizhevsky 2014), one linear head.

    The pooling windows are 2×2 rather than 3×3, as usual for CIFAR: 32 px are reduced to a single pixel.
    """

    def stage(inputs: int, width: int, kernel: int, stride: int = 1) -> list[nn.Module]:
        return [nn.Conv2d(inputs, width, kernel, stride, kernel // 2), nn.ReLU(inplace=True)]

    stages = [
        nn.Sequential(*stage(channels, 64, 11, stride=4), _pool()),
        nn.Sequential(*stage(64, 192, 5), _pool()),
        nn.Sequential(*stage(192, 384, 3), *stage(384, 256, 3), *stage(256, 256, 3), _pool()),
    ]
    return Stages(stages, 256, classes, side)


def vgg(depths: Sequence[int], classes: int, side: int, channels: int) -> nn.Module:
    """Build a VGG (Simonyan & Zisserman 2015, table 1) with batch norms and one linear head; `depths`: per stage."""
    stages, inputs = [], channels
    for depth, width in zip(depths, (64, 128, 256, 512, 512), strict=True):
        layers: list[nn.Module] = []
        for _ in range(depth):
            layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
            inputs = width
        stages.append(nn.Sequential(*layers, _pool()))
    return Stages(stages, inputs, classes, side)


@NETWORKS.register("vgg11")
def vgg11(classes: int, side: int, channels: int) -> nn.Module:
    """VGG-11, configuration A of Simonyan & Zisserman 2015, table 1."""
    return vgg((1, 1, 2, 2, 2), classes, side, channels)


@NETWORKS.register("vgg16")
def vgg16(classes: int, side: int, channels: int) -> nn.Module:
    """VGG-16, configuration D of Simonyan & Zisserman 2015, table 1."""
    return vgg((2, 2, 3, 3, 3), classes, side, channels)
