"""Distance to the nearest edge, by the steps and in the numbers of OpenCV, compiled.

Each step takes one image; borders and roundings are OpenCV's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

Image = NDArray[Any]
F = TypeVar("F", bound=Callable[..., Any])

LOW, HIGH = 50, 150
"""Thresholds of Canny's hysteresis."""
FARTHEST = 20 << 16
"""Distances count up to here, in 1/65536 pixels as all of them."""
STRAIGHT, DIAGONAL, KNIGHT = (round(length * 65536) for length in (1.0, 1.4, 2.1969))
"""Lengths of the steps of Borgefors' 5 × 5 distance (1986)."""
TAN_22 = round(math.tan(math.pi / 8) * 32768)
"""Slope between the directions "level" and "oblique", in 1/32768."""


def compiled(function: F) -> F:
    """The function as machine code, kept on disk."""
    return cast(F, njit(cache=True)(function))


@compiled
def edge_distances(levels: Image) -> Image:
    """Of every pixel of 8-bit images [B, H, W] to the nearest edge in its image."""
    out = np.empty(levels.shape, np.float32)
    for i in range(len(levels)):
        distance(canny(levels[i]), out[i])
    return out


@compiled
def canny(image: Image) -> Image:
    """Edges of 8-bit levels after Canny (1986): Sobel gradients, the norm |dx| + |dy|, edges thinned and followed."""
    height, width = image.shape
    padded = np.zeros((3, height + 2, width + 2), np.int64)
    dx, dy, norm = padded[0], padded[1], padded[2]
    _gradients(image, dx, dy, norm)
    edges, waiting = np.zeros((height, width), np.bool_), np.empty((height * width, 2), np.int64)
    for y in range(height):
        for x in range(width):
            if norm[y + 1, x + 1] > HIGH and not edges[y, x] and _is_crest(dx, dy, norm, y + 1, x + 1):
                edges[y, x] = True
                waiting[0] = y, x
                _follow(edges, waiting, dx, dy, norm)
    return edges


@compiled
def _gradients(image: Image, dx: Image, dy: Image, norm: Image) -> None:
    """Sobel derivatives with repeated edges and |dx| + |dy|, inside a border of one zero."""
    height, width = image.shape
    for y in range(height):
        up, down = max(y - 1, 0), min(y + 1, height - 1)
        for x in range(width):
            left, right = max(x - 1, 0), min(x + 1, width - 1)
            falling, rising = image[down, right] - image[up, left], image[up, right] - image[down, left]
            across = falling + rising + 2 * (image[y, right] - image[y, left])
            along = falling - rising + 2 * (image[down, x] - image[up, x])
            dx[y + 1, x + 1], dy[y + 1, x + 1], norm[y + 1, x + 1] = across, along, abs(across) + abs(along)


@compiled
def _is_crest(dx: Image, dy: Image, norm: Image, y: int, x: int) -> bool:
    """Is the gradient here larger than at the two neighbors it points at?"""
    here, level, steep = norm[y, x], abs(dx[y, x]) * TAN_22, abs(dy[y, x]) << 15
    if steep < level:
        return bool(here > norm[y, x - 1] and here >= norm[y, x + 1])
    if steep > level + (abs(dx[y, x]) << 16):
        return bool(here > norm[y - 1, x] and here >= norm[y + 1, x])
    side = -1 if (dx[y, x] < 0) != (dy[y, x] < 0) else 1
    return bool(here > norm[y - 1, x - side] and here > norm[y + 1, x + side])


@compiled
def _follow(edges: Image, waiting: Image, dx: Image, dy: Image, norm: Image) -> None:
    """Mark all weak edge points that hang together with the one that waits."""
    height, width = edges.shape
    count = 1
    while count:
        count -= 1
        y, x = waiting[count]
        for v in range(max(y - 1, 0), min(y + 2, height)):
            for u in range(max(x - 1, 0), min(x + 2, width)):
                if norm[v + 1, u + 1] > LOW and not edges[v, u] and _is_crest(dx, dy, norm, v + 1, u + 1):
                    edges[v, u] = True
                    waiting[count] = v, u
                    count += 1


@compiled
def distance(edges: Image, out: Image) -> None:
    """Way to the nearest edge point in straight, diagonal and knight's steps, at most `FARTHEST`."""
    height, width = edges.shape
    way = np.full((height + 4, width + 4), FARTHEST, np.int64)
    for y in range(2, height + 2):
        for x in range(2, width + 2):
            way[y, x] = 0 if edges[y - 2, x - 2] else min(FARTHEST, _shortest(way, y, x, 1))
    for y in range(height + 1, 1, -1):
        for x in range(width + 1, 1, -1):
            way[y, x] = out[y - 2, x - 2] = min(way[y, x], _shortest(way, y, x, -1))


@compiled
def _shortest(way: Image, y: int, x: int, ahead: int) -> int:
    """The shortest way over the neighbors already visited; `ahead` is 1 going down and −1 going up."""
    above, far = y - ahead, y - 2 * ahead
    knight = min(min(way[far, x - 1], way[far, x + 1]), min(way[above, x - 2], way[above, x + 2]))
    diagonal, straight = min(way[above, x - 1], way[above, x + 1]), min(way[above, x], way[y, x - ahead])
    return int(min(knight + KNIGHT, min(diagonal + DIAGONAL, straight + STRAIGHT)))
