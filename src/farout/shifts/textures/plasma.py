"""Plasma: fractal maps of heights, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from farout.shifts.kernels.compiling import compiled

Array = NDArray[Any]

QUARTER = np.float32(0.25)


@compiled
def plasma(noise: Array, decay: float) -> Array:
    """Maps [B, side, side] from 0 to 1 by the diamond-square algorithm, borders joined to the opposite ones.

    `noise` [B, side² − 1] in (−1, 1) holds what is added to the middles, from the coarsest level to the finest. Its
    weight is the square of a number that is divided by `decay` from level to level, as in the original.
    """
    side = int(np.sqrt(noise.shape[1] + 1))
    maps = np.zeros((len(noise), side, side), np.float32)
    for i in range(len(noise)):
        step, used, weight = side, 0, np.float32(1)
        while step > 1:
            used = _refine(maps[i], step, noise[i], used, weight)
            step, weight = step // 2, np.float32(weight / decay**2)
        _spread(maps[i])
    return maps


@compiled
def _refine(heights: Array, step: int, noise: Array, used: int, weight: np.float32) -> int:
    """Give a height to the points halfway between those `step` apart, and say how much noise is used up.

    Each is the mean of four neighbors and some noise: first the middles of all squares, from their corners, then the
    middles of edges, from the two corners and the two middles around them.
    """
    side, half = len(heights), step // 2
    for y in range(half, side, step):
        for x in range(half, side, step):
            corners = _pair(heights, y - half, x, 0, half) + _pair(heights, (y + half) % side, x, 0, half)
            heights[y, x] = corners * QUARTER + weight * noise[used]
            used += 1
    for y in range(0, side, half):
        for x in range(half - y % step, side, step):
            around = _pair(heights, y, x, 0, half) + _pair(heights, y, x, half, 0)
            heights[y, x] = around * QUARTER + weight * noise[used]
            used += 1
    return used


@compiled
def _pair(heights: Array, y: int, x: int, down: int, right: int) -> Any:
    """Sum of the heights so far before and behind a point."""
    last = len(heights) - 1
    return heights[y - down & last, x - right & last] + heights[y + down & last, x + right & last]


@compiled
def _spread(heights: Array) -> None:
    """Move and scale the heights so that they run from 0 to 1."""
    low, high = heights.min(), heights.max()
    for y in range(len(heights)):
        for x in range(len(heights)):
            heights[y, x] = (heights[y, x] - low) / (high - low)
