"""Distance to the nearest edge by the same steps and number formats as OpenCV, compiled.

Each step takes one image; borders and rounding are OpenCV's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farout.compiling import compiled

Image = NDArray[Any]

LOW, HIGH = 50, 150
"""Thresholds of Canny's hysteresis."""
FARTHEST = 20 << 16
"""Maximum distance; all distances are in 1/65536 pixels."""
STRAIGHT, DIAGONAL, KNIGHT = (round(length * 65536) for length in (1.0, 1.4, 2.1969))
"""Lengths of the steps of Borgefors' 5 × 5 distance (1986)."""
WEAK, EDGE = 1, 2
"""Marks of a crest (weak edge), and of a crest connected to a strong one (edge)."""
TAN_22 = round(math.tan(math.pi / 8) * 32768)
"""Slope between the directions "level" and "oblique", in 1/32768."""


@compiled
def edge_distances(levels: Image) -> Image:
    """Return the distance of every pixel of 8-bit images [B, H, W] to the nearest edge in its image."""
    out = np.empty(levels.shape, np.float32)
    for i in range(len(levels)):
        distance(canny(levels[i]), out[i])
    return out


@compiled
def canny(image: Image) -> Image:
    """Return the edges of 8-bit levels by Canny (1986): Sobel gradients, norm |dx| + |dy|, thinning, hysteresis."""
    height, width = image.shape
    padded = np.zeros((3, height + 2, width + 2), np.int32)
    dx, dy, norm = padded[0], padded[1], padded[2]
    _gradients(image, dx, dy, norm)
    marks, waiting = np.zeros((height + 2, width + 2), np.uint8), np.empty(height * width, np.int32)
    for y in range(1, height + 1):
        for x in range(1, width + 1):
            if norm[y, x] > LOW and _is_crest(dx, dy, norm, y, x):
                marks[y, x] = WEAK
    for y in range(1, height + 1):
        for x in range(1, width + 1):
            if norm[y, x] > HIGH and marks[y, x] == WEAK:
                _follow(marks, waiting, y, x)
    edges: Image = marks[1:-1, 1:-1] == EDGE
    return edges


@compiled
def _gradients(image: Image, dx: Image, dy: Image, norm: Image) -> None:
    """Write Sobel derivatives with repeated edges and |dx| + |dy|, inside a border of one zero."""
    height, width = image.shape
    lines = np.empty((3, width + 2), np.int32)
    for y in range(height):
        for place, line in enumerate((image[max(y - 1, 0)], image[y], image[min(y + 1, height - 1)])):
            lines[place, 0], lines[place, 1:-1], lines[place, -1] = line[0], line, line[-1]
        above, here, below = lines[0], lines[1], lines[2]
        across, along, length = dx[y + 1], dy[y + 1], norm[y + 1]
        for x in range(1, width + 1):
            falling, rising = below[x + 1] - above[x - 1], above[x + 1] - below[x - 1]
            across[x] = falling + rising + 2 * (here[x + 1] - here[x - 1])
            along[x] = falling - rising + 2 * (below[x] - above[x])
            length[x] = abs(across[x]) + abs(along[x])


@compiled
def _is_crest(dx: Image, dy: Image, norm: Image, y: int, x: int) -> bool:
    """Return True if the gradient is larger than at both neighbors along it. Without branches, for speed."""
    here, flat, high = norm[y, x], abs(dx[y, x]), abs(dy[y, x]) << 15
    is_level, is_steep = high < flat * TAN_22, high > flat * TAN_22 + (flat << 16)
    side = 1 - 2 * ((dx[y, x] < 0) != (dy[y, x] < 0))
    down, right = 1 - is_level, is_level + side * (1 - is_level - is_steep)
    # of two equal neighbors in a row or column the first is the crest, on a diagonal neither
    return bool((here > norm[y - down, x - right]) & (here + (is_level | is_steep) > norm[y + down, x + right]))


@compiled
def _follow(marks: Image, waiting: Image, y: int, x: int) -> None:
    """Mark the crest at (y, x) as an edge, and all weak ones connected to it."""
    width = marks.shape[1]
    marks[y, x], waiting[0], count = EDGE, y * width + x, 1
    while count:
        count -= 1
        y, x = divmod(waiting[count], width)
        for v in range(y - 1, y + 2):
            for u in range(x - 1, x + 2):
                if marks[v, u] == WEAK:
                    marks[v, u] = EDGE
                    waiting[count] = v * width + u
                    count += 1


@compiled
def distance(edges: Image, out: Image) -> None:
    """Write the distance to the nearest edge in straight, diagonal and knight's steps, at most `FARTHEST`."""
    height, width = edges.shape
    way = np.full((height + 4, width + 4), FARTHEST, np.int32)
    for y in range(2, height + 2):
        line = way[y, 2:-2]
        for x in range(width):
            line[x] = 0 if edges[y - 2, x] else FARTHEST
        _shorten(line, way[y - 1], way[y - 2])
        for x in range(1, width):
            line[x] = min(line[x], line[x - 1] + STRAIGHT)
    for y in range(height + 1, 1, -1):
        line = way[y, 2:-2]
        _shorten(line, way[y + 1], way[y + 2])
        for x in range(width - 2, -1, -1):
            line[x] = min(line[x], line[x + 1] + STRAIGHT)
        out[y - 2] = line


@compiled
def _shorten(line: Image, nearest: Image, far: Image) -> None:
    """Update the distances of a line from the next two lines, which have two more values on both sides."""
    for x in range(len(line)):
        knight = min(min(far[x + 1], far[x + 3]), min(nearest[x], nearest[x + 4]))
        diagonal, straight = min(nearest[x + 1], nearest[x + 3]), nearest[x + 2]
        line[x] = min(line[x], min(knight + KNIGHT, min(diagonal + DIAGONAL, straight + STRAIGHT)))
