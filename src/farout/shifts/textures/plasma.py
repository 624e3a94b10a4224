"""Plasma: fractal height maps, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from farout.compiling import compiled

Array = NDArray[Any]

QUARTER = np.float32(0.25)


@compiled
def plasma(noise: Array, decay: float) -> Array:
    """Return periodic maps [B, side, side] from 0 to 1 by the diamond-square algorithm.

    `noise` [B, side² − 1] in (−1, 1) is added to the midpoints, from the coarsest level to the finest. Its weight is
    divided by `decay`² from level to level, as in the original.
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
    """Compute the heights halfway between points `step` apart; return the number of noise values used so far.

    Each is the mean of four neighbors plus noise: first the centers of all squares, from their corners, then the
    centers of edges, from the two corners and the two centers around them.
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
    """Return the sum of the heights at equal distances before and after a point."""
    last = len(heights) - 1
    return heights[y - down & last, x - right & last] + heights[y + down & last, x + right & last]


@compiled
def _spread(heights: Array) -> None:
    """Scale the heights to the range from 0 to 1."""
    low, high = heights.min(), heights.max()
    for y in range(len(heights)):
        for x in range(len(heights)):
            heights[y, x] = (heights[y, x] - low) / (high - low)
