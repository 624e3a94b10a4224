"""Residual networks for small images: the CIFAR family of He et al. 2016, and ResNet-18/34/50/152 with a 3×3 stem."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from farout.networks.base import NETWORKS, convolution, he_initialize


class ZeroPadShortcut(nn.Module):
    """Option A of He et al. 2016, section 3.3: every `stride`-th pixel, zeros for new channels."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.before = (width - inputs) // 2
        self.after = width - inputs - self.before

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, :, :: self.stride, :: self.stride]
        return F.pad(x, (0, 0, 0, 0, self.before, self.after))


def projection(inputs: int, width: int, stride: int) -> nn.Module:
    """Build option B of He et al. 2016, section 3.3: a 1×1 convolution and a batch norm."""
    return nn.Sequential(convolution(inputs, width, 1, stride), nn.BatchNorm2d(width))


def _shortcut(inputs: int, width: int, stride: int, project: bool) -> nn.Module:
    if inputs == width and stride == 1:
        return nn.Identity()
    return projection(inputs, width, stride) if project else ZeroPadShortcut(inputs, width, stride)


class BasicBlock(nn.Module):
    """Two 3×3 convolutions around a shortcut (He et al. 2016, figure 5 left)."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int, project: bool) -> None:
        super().__init__()
        self.conv1, self.bn1 = convolution(inputs, width, 3, stride), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = convolution(width, width), nn.BatchNorm2d(width)
        self.shortcut = _shortcut(inputs, width, stride, project)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.shortcut(x), inplace=True)


class Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions around a shortcut (He et al. 2016, figure 5 right), the 3×3 one strided."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int, project: bool) -> None:
        super().__init__()
        outputs = width * self.expansion
        self.conv1, self.bn1 = convolution(inputs, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = convolution(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = convolution(width, outputs, 1), nn.BatchNorm2d(outputs)
        self.shortcut = _shortcut(inputs, outputs, stride, project)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = F.relu(self.bn2(self.conv2(out)), inplace=True)
        out = self.bn3(self.conv3(out))
        return F.relu(out + self.shortcut(x), inplace=True)


class ResNet(nn.Module):
    """ResNet (He et al. 2016) with a 3×3 stem of stride 1 and no pooling before the end, for images of 32 px.

    depths, widths: blocks and channels of each stage; every stage but the first halves the side.
    project: 1×1 convolutions on the shortcuts that change shape (option B) rather than zero padding (option A).
    stem: the stem's output, by timm's name "act1", is the first block.
    """

    def __init__(
        self,
        block: type[BasicBlock | Bottleneck],
        depths: Sequence[int],
        widths: Sequence[int],
        *,
        classes: int,
        side: int,
        channels: int,
        project: bool,
        stem: bool = False,
    ) -> None:
        super().__init__()
        self.side = side
        self.act1 = nn.ReLU(inplace=True) if stem else None
        self.conv1, self.bn1 = convolution(channels, widths[0]), nn.BatchNorm2d(widths[0])
        inputs = widths[0]
        for stage, (depth, width) in enumerate(zip(depths, widths, strict=True), start=1):
            blocks = []
            for index in range(depth):
                blocks.append(block(inputs, width, 2 if stage > 1 and index == 0 else 1, project))
                inputs = width * block.expansion
            self.add_module(f"layer{stage}", nn.Sequential(*blocks))
        self.stages = tuple(f"layer{stage}" for stage in range(1, len(depths) + 1))
        self.block_names = ("act1", *self.stages) if stem else self.stages
        self.linear = nn.Linear(inputs, classes)
        he_initialize(self)

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn1(self.conv1(x))
        x = F.relu(x, inplace=True) if self.act1 is None else self.act1(x)
        for name in self.stages:
            x = self.get_submodule(name)(x)
        return self.linear(x.mean((2, 3)))  # type: ignore[no-any-return]


def _register_cifar(depth: int) -> None:
    """Build the CIFAR ResNet of He et al. 2016, section 4.2: depth = 6n + 2 layers, n basic blocks per stage."""

    @NETWORKS.register(f"resnet{depth}")
    def make(classes: int, side: int, channels: int, width: int = 16) -> nn.Module:
        depths, widths = [(depth - 2) // 6] * 3, (width, 2 * width, 4 * width)
        return ResNet(BasicBlock, depths, widths, classes=classes, side=side, channels=channels, project=False)

    make.__doc__ = f"ResNet-{depth} for small images (He et al. 2016, section 4.2): stages of 16, 32 and 64 channels."


def _register_small(
    name: str, block: type[BasicBlock | Bottleneck], depths: Sequence[int], *, stem: bool = False
) -> None:
    """Build the stages of He et al. 2016, table 1, after the small stem."""

    @NETWORKS.register(name)
    def make(classes: int, side: int, channels: int, width: int = 64) -> nn.Module:
        widths = (width, 2 * width, 4 * width, 8 * width)
        return ResNet(block, depths, widths, classes=classes, side=side, channels=channels, project=True, stem=stem)

    make.__doc__ = f"ResNet-{name[6:]} (He et al. 2016, table 1); below 96 px its 3×3 stem keeps the side, else timm's."


for _depth in (20, 32, 44, 56, 110):
    _register_cifar(_depth)
_register_small("resnet18", BasicBlock, (2, 2, 2, 2))
_register_small("resnet34", BasicBlock, (3, 4, 6, 3), stem=True)  # Lee et al. 2018 read five blocks
_register_small("resnet50", Bottleneck, (3, 4, 6, 3))
_register_small("resnet152", Bottleneck, (3, 8, 36, 3))
