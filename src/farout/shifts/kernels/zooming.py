"""Sum of zooms of an image, compiled."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.compiling import compiled
from farout.shifts.kernels.resample import enlarged_length

Array = NDArray[Any]


def zoom_sum(images: Tensor, count: int, step: float) -> Tensor:
    """Return twice the images [B, C, H, W] plus their count − 1 linear zooms by 1 + step, 1 + 2·step, … ."""
    height, width = images.shape[2:]
    pixels = images.float().contiguous().cpu().numpy()
    total = 2 * pixels
    _add_zooms(pixels, *zooms(height, count, step), *zooms(width, count, step), total)
    return torch.from_numpy(total).to(images.device)


@functools.lru_cache(maxsize=64)
def zooms(side: int, count: int, step: float) -> tuple[Array, Array]:
    """Return the source coordinates of `side` pixels at each zoom factor above 1: index n, and distance from n; both
    [count − 1, side].

    The factors are those of numpy's `arange(1, …, step)`: if side / factor is an integer, their last bit decides on the
    crop.
    """
    factors = np.arange(1, 1 + (count - 0.5) * step, step)[1:]
    seen = np.array([_seen(side, float(factor)) for factor in factors])
    lower = seen.astype(np.uint64).clip(0, max(0, side - 2))  # unsigned: twice as fast in compiled code
    return lower, (seen - lower).astype(np.float32)


def _seen(side: int, factor: float) -> Array:
    """Return the coordinates in a line of pixels after a linear zoom of its center by scipy.ndimage.zoom.

    The zoom's first pixel is the crop's first, its last the crop's last. It may have one pixel more than the line; the
    last one is then dropped.
    """
    # unlike `enlarged_coordinates`, scipy's coordinates end just before the last pixel for some sides, such as 68 px
    crop = enlarged_length(side, factor)
    zoomed = round(crop * factor)
    return (side - crop) // 2 + np.arange(side) * ((crop - 1) / max(1, zoomed - 1))


@compiled
def _add_zooms(images: Array, lower: Array, share: Array, left: Array, part: Array, total: Array) -> None:
    """Add all zooms to `total`: rows `lower` and the next mixed by `share`, columns `left` and the next by `part`."""
    count, channels, height, width = images.shape
    mixed = np.zeros(width + 1, np.float32)
    after = mixed[1:]
    for i in range(count):
        for c in range(channels):
            for y in range(height):
                for k in range(len(lower)):
                    first = int(lower[k, y])
                    _mix_rows(images[i, c, first], images[i, c, min(first + 1, height - 1)], share[k, y], mixed)
                    _add_columns(mixed, after, left[k], part[k], total[i, c, y])


@compiled
def _mix_rows(first: Array, second: Array, share: float, mixed: Array) -> None:
    for x in range(len(first)):
        mixed[x] = first[x] + share * (second[x] - first[x])


@compiled
def _add_columns(mixed: Array, after: Array, left: Array, part: Array, line: Array) -> None:
    for x in range(len(line)):
        n = left[x]
        line[x] += mixed[n] + part[x] * (after[n] - mixed[n])
