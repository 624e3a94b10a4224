"""The relief of water drops: the steps of OpenCV by which the original spatter makes them, compiled.

Each step takes one image; numbers, borders and roundings are OpenCV's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray
from torch import Tensor, from_numpy

Image = NDArray[Any]
F = TypeVar("F", bound=Callable[..., Any])

LOW, HIGH = 50, 150
"""Thresholds of Canny's hysteresis."""
FARTHEST = 20
"""Distances from an edge count up to here."""
STRAIGHT, DIAGONAL, KNIGHT = (round(length * 65536) for length in (1.0, 1.4, 2.1969))
"""Lengths of the steps of Borgefors' 5 × 5 distance (1986), in 1/65536 pixels."""
TAN_22 = round(math.tan(math.pi / 8) * 32768)
"""Slope between the directions "level" and "oblique", in 1/32768."""
BOX = np.ones((3, 3))
EMBOSS = np.array([[-2.0, -1, 0], [-1, 1, 1], [0, 1, 2]])


def compiled(function: F) -> F:
    """The function as machine code, kept on disk."""
    return cast(F, njit(cache=True)(function))


def relief(levels: Tensor) -> Tensor:
    """How bright the liquid would shine at each pixel, whole numbers from 0 to 255; both [B, H, W]."""
    return from_numpy(_reliefs(levels.cpu().numpy())).to(levels.device)


@compiled
def _reliefs(levels: Image) -> Image:
    out = np.empty(levels.shape, np.float32)
    for i in range(len(levels)):
        near = distance(canny(levels[i]))
        flat = equalize(np.floor((window(near, BOX) * (1 / 9)).astype(np.float32)).astype(np.int64))
        lit = np.clip(window(flat, EMBOSS), 0, 255)
        out[i] = np.floor(window(lit, BOX) / 9 + 0.5)
    return out


@compiled
def canny(image: Image) -> Image:
    """Edges of 8-bit levels after Canny (1986): Sobel gradients, the norm |dx| + |dy|, edges thinned and followed."""
    dx, dy, norm = _gradients(image)
    edges = np.zeros(norm.shape, np.bool_)
    for y in range(1, len(norm) - 1):
        for x in range(1, len(norm[0]) - 1):
            if norm[y, x] > HIGH and not edges[y, x] and _is_crest(dx, dy, norm, y, x):
                _follow(edges, dx, dy, norm, y, x)
    return edges[1:-1, 1:-1]


@compiled
def _gradients(image: Image) -> tuple[Image, Image, Image]:
    """Sobel derivatives with repeated edges, and |dx| + |dy|; all with a border of one zero."""
    height, width = image.shape
    dx, dy = np.zeros((height + 2, width + 2), np.int64), np.zeros((height + 2, width + 2), np.int64)
    for y in range(height):
        up, down = max(y - 1, 0), min(y + 1, height - 1)
        for x in range(width):
            left, right = max(x - 1, 0), min(x + 1, width - 1)
            falling = image[down, right] - image[up, left]
            rising = image[up, right] - image[down, left]
            dx[y + 1, x + 1] = falling + rising + 2 * (image[y, right] - image[y, left])
            dy[y + 1, x + 1] = falling - rising + 2 * (image[down, x] - image[up, x])
    return dx, dy, np.abs(dx) + np.abs(dy)


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
def _follow(edges: Image, dx: Image, dy: Image, norm: Image, y: int, x: int) -> None:
    """Mark an edge point and all weak ones that hang together with it."""
    edges[y, x] = True
    waiting = [(y, x)]
    while waiting:
        y, x = waiting.pop()
        for v in range(max(y - 1, 1), min(y + 2, len(norm) - 1)):
            for u in range(max(x - 1, 1), min(x + 2, len(norm[0]) - 1)):
                if norm[v, u] > LOW and not edges[v, u] and _is_crest(dx, dy, norm, v, u):
                    edges[v, u] = True
                    waiting.append((v, u))


@compiled
def distance(edges: Image) -> Image:
    """Way to the nearest edge point in straight, diagonal and knight's steps, at most `FARTHEST`."""
    height, width = edges.shape
    way = np.full((height + 4, width + 4), (FARTHEST + 1) << 16, np.int64)
    for y in range(2, height + 2):
        for x in range(2, width + 2):
            way[y, x] = 0 if edges[y - 2, x - 2] else _shortest(way, y, x, 1)
    for y in range(height + 1, 1, -1):
        for x in range(width + 1, 1, -1):
            way[y, x] = min(way[y, x], _shortest(way, y, x, -1))
    return np.minimum(way[2:-2, 2:-2] / 65536, FARTHEST)


@compiled
def _shortest(way: Image, y: int, x: int, ahead: int) -> int:
    """The shortest way over the neighbors already visited; `ahead` is 1 going down and −1 going up."""
    above, far = y - ahead, y - 2 * ahead
    knight = min(way[far, x - 1], way[far, x + 1], way[above, x - 2], way[above, x + 2]) + KNIGHT
    diagonal = min(way[above, x - 1], way[above, x + 1]) + DIAGONAL
    return int(min(knight, diagonal, min(way[above, x], way[y, x - ahead]) + STRAIGHT))


@compiled
def window(image: Image, kernel: Image) -> Image:
    """Sum over the 3 × 3 neighbors weighted by the kernel; edges are mirrored at the outermost pixel."""
    height, width = image.shape
    total = np.zeros((height, width))
    for y in range(height):
        for x in range(width):
            for v in range(-1, 2):
                for u in range(-1, 2):
                    total[y, x] += kernel[v + 1, u + 1] * image[_mirrored(y + v, height), _mirrored(x + u, width)]
    return total


@compiled
def _mirrored(place: int, side: int) -> int:
    return max(0, min(abs(place), 2 * side - 2 - place))


@compiled
def equalize(image: Image) -> Image:
    """Levels from 0 to 255 spread so that their histogram becomes flat; an image of one level stays as it is."""
    counts = np.zeros(256, np.int64)
    for level in image.flat:
        counts[level] += 1
    lowest = np.flatnonzero(counts)[0]
    if counts[lowest] == image.size:
        return image
    scale = np.float32(255) / np.float32(image.size - counts[lowest])
    ranks = (np.cumsum(counts) - counts[lowest]).astype(np.float32)
    levels: Image = np.rint(ranks * scale).astype(np.int64)
    return np.take(levels, image)
