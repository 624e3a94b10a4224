"""Weighted sums of images shifted by whole pixels, compiled, with a fixed order of summation."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.compiling import compiled

Array = NDArray[Any]
Places = TypeVar("Places", Array, Tensor)

NEGLIGIBLE = 2.0**-25
"""Weight below which a tap does not change a float32 number near 1."""


def shifted_sum(images: Tensor, dy: Array, dx: Array, weights: Array) -> Tensor:
    """Return Σ over t of weights[t] · image(y + dy[t], x + dx[t]).

    `dy` and `dx` [B, T] are integers, one row for each of the images [B, C, H, W]. Edges are repeated.
    """
    heavy = weights >= NEGLIGIBLE
    dy, dx, weights = dy[:, heavy], dx[:, heavy], weights[heavy].astype(np.float32)
    far = max(int(np.abs(dy).max(initial=0)), int(np.abs(dx).max(initial=0)))
    rows, columns = (repeated_indices(side, far) for side in images.shape[2:])
    pixels = _pixels(images)
    total = np.zeros_like(pixels)
    _add_shifted(pixels, rows, columns, dy + far, dx + far, weights, total)
    return torch.from_numpy(total).to(images.device)


def correlate(images: Tensor, kernel: Array) -> Tensor:
    """Filter images [B, C, H, W] with a square kernel that is symmetric vertically and horizontally.

    Edges are mirrored at the outermost pixels.
    """
    reach = len(kernel) // 2
    quarter = kernel[reach:, reach:].astype(np.float32)
    quarter[0] /= 2  # folding counts the central row and column twice
    quarter[:, 0] /= 2
    rows, columns = (mirrored_indices(side, reach) for side in images.shape[2:])
    pixels = _pixels(images)
    total = np.zeros_like(pixels)
    _add_folded(pixels, rows, columns, quarter, total)
    return torch.from_numpy(total).to(images.device)


def repeated_indices(side: int, far: int) -> Array:
    """Return the indices of the pixels at −far, …, side − 1 + far of a line whose outermost pixels are repeated."""
    return np.arange(-far, side + far).clip(0, side - 1).astype(np.uint64)


def mirrored_indices(side: int, far: int) -> Array:
    """Return the indices of the pixels at −far, …, side − 1 + far of a line mirrored at its outermost pixels."""
    return mirror_indices(np.arange(-far, side + far), side).astype(np.uint64)


def mirror_indices(places: Places, side: int) -> Places:
    """Return indices mirrored at the outermost pixels of a line into `range(side)`: c b a b c … ."""
    last = side - 1
    return last - abs(places % max(1, 2 * last) - last)


def _pixels(images: Tensor) -> Array:
    pixels: Array = images.float().contiguous().cpu().numpy()
    return pixels


@compiled
def _add_shifted(
    images: Array, rows: Array, columns: Array, dy: Array, dx: Array, weights: Array, total: Array
) -> None:
    """Add the shifted images to `total`; `rows` and `columns` are pixel indices, which `dy` and `dx` index from 0."""
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
    """Add the filtered images to `total`; rows and columns at equal distances are added before weighting."""
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
    """Add to `line` the weighted values of `both` at each distance to the left and to the right."""
    reach, width = len(weights) - 1, len(line)
    for e in range(reach + 1):
        weight = weights[e]
        if weight < NEGLIGIBLE:
            continue
        left, right = both[reach - e : reach - e + width], both[reach + e : reach + e + width]
        for x in range(width):
            line[x] += weight * (left[x] + right[x])


@compiled
def _widen(image: Array, columns: Array, wide: Array) -> None:
    """Copy these columns of the image to `wide`."""
    for y in range(len(image)):
        for x in range(len(columns)):
            wide[y, x] = image[y, columns[x]]
