"""8-bit values: as levels from 0 to 255, as numbers from 0 to 1, as the bytes of Pillow's images."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.shifts.kernels.compiling import compiled

Array = NDArray[Any]

NEARLY = 2e-4
"""A value so little below an 8-bit level counts as that level: float32 sums of a flat image must not darken it."""
WHITE, HALF = np.float32(255), np.float32(0.5)


def truncate(images: Tensor) -> Tensor:
    """The 8-bit values at or below the given ones, as the published sets have them; in [0, 1]."""
    return images.mul(255).add_(NEARLY).floor_().clamp_(0, 255).div_(255)


def round_(images: Tensor) -> Tensor:
    """The given values turned into the nearest 8-bit ones in place; in [0, 1]."""
    return images.mul_(255).round_().clamp_(0, 255).div_(255)


def to_bytes(images: Tensor) -> Array:
    """8-bit values [B, C, H, W] with the channels of a pixel side by side, [B, H, W, C]."""
    count, channels, height, width = images.shape
    if channels == 1:
        return images.mul(255).round_().to(torch.uint8).cpu().view(count, height, width, 1).numpy()
    packed = np.empty((count, height * width * 3), np.uint8)
    _pack(images.cpu().contiguous().flatten(2).numpy(), packed)
    return packed.reshape(count, height, width, 3)


def from_bytes(levels: Array) -> Tensor:
    """Values [B, C, H, W] from bytes [B, H, W, C]."""
    count, height, width, channels = levels.shape
    if channels == 1:
        return torch.from_numpy(levels).view(count, 1, height, width).float().div_(255)
    images = torch.empty(count, 3, height, width)
    _unpack(levels.reshape(count, -1), images.flatten(2).numpy())
    return images


@compiled
def _pack(images: Array, packed: Array) -> None:
    """[B, 3, N] to [B, 3 N]. All three in one loop, which works on vectors then."""
    for i in range(len(images)):
        red, green, blue, line = images[i, 0], images[i, 1], images[i, 2], packed[i]
        for x in range(red.size):
            line[3 * x] = np.uint8(np.int32(red[x] * WHITE + HALF))
            line[3 * x + 1] = np.uint8(np.int32(green[x] * WHITE + HALF))
            line[3 * x + 2] = np.uint8(np.int32(blue[x] * WHITE + HALF))


@compiled
def _unpack(packed: Array, images: Array) -> None:
    """The way back."""
    for i in range(len(images)):
        red, green, blue, line = images[i, 0], images[i, 1], images[i, 2], packed[i]
        for x in range(red.size):
            red[x] = np.float32(line[3 * x]) / WHITE
            green[x] = np.float32(line[3 * x + 1]) / WHITE
            blue[x] = np.float32(line[3 * x + 2]) / WHITE
