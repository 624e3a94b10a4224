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
    width: channels of the first convolution; all other layers are scaled in proportion.
    """

    block_names = ("stage1", "stage2")

    def __init__(self, classes: int, side: int, channels: int, width: int = 6) -> None:
        super().__init__()
        self.side = side
        padding = 2 if side < 32 else 0
        maps, hidden, features = 16 * width // 6, 20 * width, 14 * width
        self.stage1 = nn.Sequential(
            nn.Conv2d(channels, width, 5, padding=padding), nn.ReLU(inplace=True), nn.MaxPool2d(2)
        )
        self.stage2 = nn.Sequential(nn.Conv2d(width, maps, 5), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.fc1, self.fc2 = nn.Linear(25 * maps, hidden), nn.Linear(hidden, features)
        self.linear = nn.Linear(features, classes)
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
def alexnet(classes: int, side: int, channels: int, width: int = 64) -> nn.Module:
    """AlexNet: five convolutions (Krizhevsky et al. 2012; widths of Krizhevsky 2014), one linear head.

    The pooling windows are 2×2 rather than 3×3, as usual for CIFAR: 32 px are reduced to a single pixel.
    width: channels of the first convolution; the others have 3, 6, 4 and 4 times as many.
    """

    def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2), nn.ReLU(inplace=True)]

    second, third, last = 3 * width, 6 * width, 4 * width
    stages = [
        nn.Sequential(*convolution(channels, width, 11, stride=4), _pool()),
        nn.Sequential(*convolution(width, second, 5), _pool()),
        nn.Sequential(
            *convolution(second, third, 3), *convolution(third, last, 3), *convolution(last, last, 3), _pool()
        ),
    ]
    return Stages(stages, last, classes, side)


def vgg(depths: Sequence[int], classes: int, side: int, channels: int, width: int) -> nn.Module:
    """Build a VGG (Simonyan & Zisserman 2015, table 1) with batch norms and one linear head.

    depths: convolutions per stage. width: channels of the first stage; the others have 2, 4, 8 and 8 times as many.
    """
    stages, inputs = [], channels
    for depth, multiple in zip(depths, (1, 2, 4, 8, 8), strict=True):
        outputs = multiple * width
        layers: list[nn.Module] = []
        for _ in range(depth):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
            inputs = outputs
        stages.append(nn.Sequential(*layers, _pool()))
    return Stages(stages, inputs, classes, side)


@NETWORKS.register("vgg11")
def vgg11(classes: int, side: int, channels: int, width: int = 64) -> nn.Module:
    """VGG-11, configuration A of Simonyan & Zisserman 2015, table 1."""
    return vgg((1, 1, 2, 2, 2), classes, side, channels, width)


@NETWORKS.register("vgg16")
def vgg16(classes: int, side: int, channels: int, width: int = 64) -> nn.Module:
    """VGG-16, configuration D of Simonyan & Zisserman 2015, table 1."""
    return vgg((2, 2, 3, 3, 3), classes, side, channels, width)
