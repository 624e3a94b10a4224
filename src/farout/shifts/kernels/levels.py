"""Conversion between 8-bit levels from 0 to 255, values from 0 to 1, and bytes of Pillow images."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.compiling import compiled

Array = NDArray[Any]

NEARLY = 2e-4
"""Tolerance below an 8-bit level, in levels: rounding of float32 sums must not darken a flat image."""
WHITE, HALF = np.float32(255), np.float32(0.5)


def truncate(images: Tensor) -> Tensor:
    """Truncate to 8-bit values in [0, 1], as in the published sets."""
    return images.mul(255).add_(NEARLY).floor_().clamp_(0, 255).div_(255)


def round_(images: Tensor) -> Tensor:
    """Round to 8-bit values in [0, 1], in place."""
    return images.mul_(255).round_().clamp_(0, 255).div_(255)


def to_bytes(images: Tensor) -> Array:
    """Return 8-bit values [B, C, H, W] as bytes [B, H, W, C]."""
    count, channels, height, width = images.shape
    if channels == 1:
        return images.mul(255).round_().to(torch.uint8).cpu().view(count, height, width, 1).numpy()
    packed = np.empty((count, height * width * 3), np.uint8)
    _pack(images.cpu().contiguous().flatten(2).numpy(), packed)
    return packed.reshape(count, height, width, 3)


def from_bytes(levels: Array) -> Tensor:
    """Return values [B, C, H, W] from bytes [B, H, W, C]."""
    count, height, width, channels = levels.shape
    if channels == 1:
        return torch.from_numpy(levels).view(count, 1, height, width).float().div_(255)
    images = torch.empty(count, 3, height, width)
    _unpack(levels.reshape(count, -1), images.flatten(2).numpy())
    return images


@compiled
def _pack(images: Array, packed: Array) -> None:
    """Convert [B, 3, N] to [B, 3 N]. All channels in one loop, which is vectorized."""
    for i in range(len(images)):
        red, green, blue, line = images[i, 0], images[i, 1], images[i, 2], packed[i]
        for x in range(red.size):
            line[3 * x] = np.uint8(np.int32(red[x] * WHITE + HALF))
            line[3 * x + 1] = np.uint8(np.int32(green[x] * WHITE + HALF))
            line[3 * x + 2] = np.uint8(np.int32(blue[x] * WHITE + HALF))


@compiled
def _unpack(packed: Array, images: Array) -> None:
    """Convert [B, 3 N] to [B, 3, N]."""
    for i in range(len(images)):
        red, green, blue, line = images[i, 0], images[i, 1], images[i, 2], packed[i]
        for x in range(red.size):
            red[x] = np.float32(line[3 * x]) / WHITE
            green[x] = np.float32(line[3 * x + 1]) / WHITE
            blue[x] = np.float32(line[3 * x + 2]) / WHITE
