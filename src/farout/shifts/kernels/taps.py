"""Weighted sums of images moved by whole pixels, compiled: products are added always in one order."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.shifts.kernels.compiling import compiled

Array = NDArray[Any]
Places = TypeVar("Places", Array, Tensor)

NOTHING = 2.0**-25
"""A tap of less weight than this changes no float32 number near 1."""


def moved_sum(images: Tensor, dy: Array, dx: Array, weights: Array) -> Tensor:
    """Σ over t of weights[t] · the image moved by t: at (y, x) it shows what was at (y + dy[t], x + dx[t]).

    `dy` and `dx` [B, T] are whole numbers, a row for each of the images [B, C, H, W]. Edges are repeated.
    """
    heavy = weights >= NOTHING
    dy, dx, weights = dy[:, heavy], dx[:, heavy], weights[heavy].astype(np.float32)
    far = max(int(np.abs(dy).max(initial=0)), int(np.abs(dx).max(initial=0)))
    rows, columns = (repeated(side, far) for side in images.shape[2:])
    pixels = _pixels(images)
    total = np.zeros_like(pixels)
    _add_moved(pixels, rows, columns, dy + far, dx + far, weights, total)
    return torch.from_numpy(total).to(images.device)


def correlate(images: Tensor, kernel: Array) -> Tensor:
    """Images [B, C, H, W] filtered by a square kernel that is the same upside down and left to right.

    Beyond the edges the image is mirrored at its outermost pixels.
    """
    reach = len(kernel) // 2
    quarter = kernel[reach:, reach:].astype(np.float32)
    quarter[0] /= 2  # the middle row and column meet themselves when the image is folded
    quarter[:, 0] /= 2
    rows, columns = (mirrored(side, reach) for side in images.shape[2:])
    pixels = _pixels(images)
    total = np.zeros_like(pixels)
    _add_folded(pixels, rows, columns, quarter, total)
    return torch.from_numpy(total).to(images.device)


def repeated(side: int, far: int) -> Array:
    """Which of `side` pixels in a line are seen at −far, …, side − 1 + far, where the outermost ones are repeated."""
    return np.arange(-far, side + far).clip(0, side - 1).astype(np.uint64)


def mirrored(side: int, far: int) -> Array:
    """The same where the line is mirrored at the outermost pixels."""
    return mirrored_into(np.arange(-far, side + far), side).astype(np.uint64)


def mirrored_into(places: Places, side: int) -> Places:
    """Places mirrored at the outermost pixels of a line into `range(side)`: c b a b c … ."""
    last = side - 1
    return last - abs(places % max(1, 2 * last) - last)


def _pixels(images: Tensor) -> Array:
    pixels: Array = images.float().contiguous().cpu().numpy()
    return pixels


@compiled
def _add_moved(images: Array, rows: Array, columns: Array, dy: Array, dx: Array, weights: Array, total: Array) -> None:
    """`rows` and `columns` are places in the image; `dy` and `dx` are counted from their beginnings."""
    count, channels, height, width = images.shape
    wide = np.empty((height, len(columns)), np.float32)
    for i in range(count):
        for c in range(channels):
            _widen(images[i, c], columns, wide)
            for y in range(height):
                line = total[i, c, y]
                for t in range(len(weights)):
                    weight, source = weights[t], wide[rows[y + dy[i, t]], dx[i, t] : dx[i, t] + width]
                    for x in range(width):
                        line[x] += weight * source[x]


@compiled
def _add_folded(images: Array, rows: Array, columns: Array, quarter: Array, total: Array) -> None:
    """The rows at the same distance above and below are added before they are weighted, and the columns too."""
    count, channels, height, _ = images.shape
    reach = len(quarter) - 1
    wide = np.empty((height, len(columns)), np.float32)
    both = np.empty(len(columns), np.float32)
    for i in range(count):
        for c in range(channels):
            _widen(images[i, c], columns, wide)
            for y in range(height):
                for d in range(reach + 1):
                    above, below = wide[rows[y + reach - d]], wide[rows[y + reach + d]]
                    for x in range(len(both)):
                        both[x] = above[x] + below[x]
                    _add_pairs(both, quarter[d], total[i, c, y])


@compiled
def _add_pairs(both: Array, weights: Array, line: Array) -> None:
    """To `line` add the numbers of `both` at each distance on the left and on the right, weighted."""
    reach, width = len(weights) - 1, len(line)
    for e in range(reach + 1):
        weight = weights[e]
        if weight < NOTHING:
            continue
        left, right = both[reach - e : reach - e + width], both[reach + e : reach + e + width]
        for x in range(width):
            line[x] += weight * (left[x] + right[x])


@compiled
def _widen(image: Array, columns: Array, wide: Array) -> None:
    """Into `wide` put these columns of the image."""
    for y in range(len(image)):
        for x in range(len(columns)):
            wide[y, x] = image[y, columns[x]]
