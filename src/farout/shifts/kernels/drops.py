"""Drops on a lens: mud, and water by the same OpenCV steps as the original."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.compiling import compiled
from farout.shifts.kernels.edges import edge_distances
from farout.shifts.kernels.gaussian import gaussian

Array = NDArray[Any]

BOX = ((1, 1, 1), (1, 1, 1), (1, 1, 1))
EMBOSS = ((-2, -1, 0), (-1, 1, 1), (0, 1, 2))


def mud_mask(liquid: Tensor, threshold: float, blur: float) -> Tensor:
    """Return the coverage of each pixel by mud, [B, H, W]; values below 0.8 are set to 0."""
    mask = gaussian((liquid > threshold).to(liquid.dtype), blur)
    return mask.masked_fill_(mask < 0.8, 0)


def water_mask(liquid: Tensor, threshold: float) -> Tensor:
    """Return the light that water adds to each pixel, [B, H, W], maximum 1; 0 without a drop."""
    levels = liquid.masked_fill(liquid < threshold, 0).mul(255).int()
    levels = levels.bitwise_and_(255)  # 8 bits overflow here, as in the original
    shine = levels.to(liquid.dtype).mul_(relief(levels))
    return shine.div(shine.amax((1, 2), keepdim=True)).nan_to_num_(0)


def relief(levels: Tensor) -> Tensor:
    """Return the shine of water with these 8-bit levels (int32) from 0 to 255 in float32; both [B, H, W].

    All sums are integers below 2²⁴, so they are exact.
    """
    distances = torch.from_numpy(edge_distances(levels.cpu().numpy()))
    flat = equalize(correlate_3x3(distances, BOX).div_(9 << 16).int())
    lit = correlate_3x3(flat.float(), EMBOSS).clamp_(0, 255)
    return correlate_3x3(lit, BOX).div_(9).round_().to(levels.device)


def correlate_3x3(images: Tensor, kernel: Sequence[Sequence[int]]) -> Tensor:
    """Correlate images [B, H, W] with a 3 × 3 kernel; edges are mirrored at the outermost pixel."""
    weights = np.array(kernel, np.float32)
    return torch.from_numpy(_neighbors(images.numpy(), weights))


@compiled
def _neighbors(images: Array, weights: Array) -> Array:
    count, height, _ = images.shape
    total = np.empty_like(images)
    for i in range(count):
        for y in range(height):
            above, below = min(abs(y - 1), height - 1), y + 1 if y + 1 < height else max(0, y - 1)
            _one_line(images[i, above], images[i, y], images[i, below], weights, total[i, y])
    return total


@compiled
def _one_line(above: Array, here: Array, below: Array, weights: Array, total: Array) -> None:
    last = len(total) - 1
    for x in range(1, last):
        total[x] = _nine(above, here, below, weights, x - 1, x, x + 1)
    second, last_but_one = min(1, last), max(0, last - 1)
    total[0] = _nine(above, here, below, weights, second, 0, second)
    total[last] = _nine(above, here, below, weights, last_but_one, last, last_but_one)


@compiled
def _nine(above: Array, here: Array, below: Array, weights: Array, left: int, x: int, right: int) -> float:
    total: float = weights[0, 0] * above[left] + weights[0, 1] * above[x] + weights[0, 2] * above[right]
    total += weights[1, 0] * here[left] + weights[1, 1] * here[x] + weights[1, 2] * here[right]
    total += weights[2, 0] * below[left] + weights[2, 1] * below[x] + weights[2, 2] * below[right]
    return total


def equalize(images: Tensor) -> Tensor:
    """Return 8-bit levels [B, H, W] with equalized histograms; an image of one level is unchanged."""
    flat = images.flatten(1).clone()
    _equalize(flat.numpy())
    return flat.view_as(images)


@compiled
def _equalize(images: Array) -> None:
    for i in range(len(images)):
        image, counts = images[i], np.zeros(256, np.int64)
        for place in range(len(image)):
            counts[image[place]] += 1
        lowest = counts[counts.nonzero()[0][0]]
        others = len(image) - lowest
        if others:
            scale = np.float32(255) / np.float32(others)
            table = np.rint((np.cumsum(counts) - lowest).astype(np.float32) * scale).astype(images.dtype)
            for place in range(len(image)):
                image[place] = table[image[place]]
