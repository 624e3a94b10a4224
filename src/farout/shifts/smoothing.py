"""The Gaussian filter compiled: line by line, with the sums of `farout.shifts.filters` in the same order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from farout.shifts.edges import compiled

Array = NDArray[Any]


@compiled
def smoothed(planes: Array, weights: Array) -> Array:
    """Planes [N, H, W] filtered with these taps, the middle one first, down and then across; edges are repeated."""
    count, height, width = planes.shape
    reach, out = len(weights) - 1, np.empty_like(planes)
    line = np.empty(width + 2 * reach, planes.dtype)
    for i in range(count):
        for y in range(height):
            _down(planes[i], y, weights, line[reach : reach + width])
            line[:reach], line[reach + width :] = line[reach], line[reach + width - 1]
            _across(line, weights, out[i, y])
    return out


@compiled
def _down(plane: Array, y: int, weights: Array, total: Array) -> None:
    """The sum over the lines above and below line y."""
    width, last = len(total), len(plane) - 1
    weight, line = weights[0], plane[y]
    for x in range(width):
        total[x] = line[x] * weight
    for step in range(1, len(weights)):
        weight, above, below = weights[step], plane[max(y - step, 0)], plane[min(y + step, last)]
        for x in range(width):
            total[x] += (above[x] + below[x]) * weight


@compiled
def _across(line: Array, weights: Array, total: Array) -> None:
    """The sum over the numbers left and right of each in the middle of the line."""
    width, reach = len(total), len(weights) - 1
    weight, middle = weights[0], line[reach : reach + width]
    for x in range(width):
        total[x] = middle[x] * weight
    for step in range(1, len(weights)):
        weight = weights[step]
        left, right = line[reach - step : reach - step + width], line[reach + step : reach + step + width]
        for x in range(width):
            total[x] += (left[x] + right[x]) * weight
