"""Images read at other places, bilinear and compiled: the affine map and the displacements of `elastic`.

The original's affine map is OpenCV's, which up to its version 4 reads images at places 1/32 pixel apart. So do we,
for the published sets were made so; exact places, as version 5 has them, change sharp images by up to six levels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from farout.shifts.kernels.compiling import compiled

Array = NDArray[Any]

BITS = 5
"""The affine map reads 2⁵ places a pixel; its coordinates are added up with as many bits more, then rounded."""
LAST, HALF, SHARE = (1 << BITS) - 1, 1 << BITS - 1, np.float32(1 / (1 << BITS))
FARTHEST = 1 << 15 + BITS
"""Where its places end on both sides, as in OpenCV; only a map that is nearly singular leads there."""


def inverse_maps(moves: Array, height: int, width: int) -> Array:
    """Where a pixel (x, y) comes from if three points move by so much: [B, 2, 3] from [B, 3, 2], both x and y.

    The points p are (+, +), (+, −) and (−, −) a third of the shorter side away from the middle. With q the moved
    ones, (x, y) = q₁ + s·(q₀ − q₁) + t·(q₂ − q₁) comes from p₁ + s·(p₀ − p₁) + t·(p₂ − p₁). A row [a, b, c] of the
    result stands for a·x + b·y + c; a map without an inverse leads to p₁.
    """
    third = max(1, min(height, width) // 3)
    right, top = width // 2 + third, height // 2 - third
    points = np.array([[right, top + 2 * third], [right, top], [right - 2 * third, top]], np.float32)
    moved = (points + moves).astype(np.float64)  # rounded to float32 before, as in the original
    (down_x, down_y), (left_x, left_y) = (moved[:, i].T - moved[:, 1].T for i in (0, 2))
    area = down_x * left_y - down_y * left_x
    scale = np.where(area == 0, 0, 2 * third / np.where(area == 0, 1, area))
    sources = np.zeros((len(moves), 2, 3))
    sources[:, 0, 0], sources[:, 0, 1] = scale * down_y, -scale * down_x
    sources[:, 1, 0], sources[:, 1, 1] = scale * left_y, -scale * left_x
    sources[:, :, 2] = points[1] - sources[:, :, 0] * moved[:, 1, :1] - sources[:, :, 1] * moved[:, 1, 1:]
    return sources


@compiled
def warp(images: Array, sources: Array) -> Array:
    """Images [B, C, H, W] read where affine maps [B, 2, 3] lead."""
    out = np.empty_like(images)
    for i in range(len(images)):
        _warp_one(images[i], sources[i], out[i])
    return out


@compiled
def _warp_one(image: Array, source: Array, out: Array) -> None:
    channels, height, width = image.shape
    steps = np.empty((2, width), np.int64)
    for x in range(width):
        steps[0, x], steps[1, x] = _fixed(source[0, 0] * x), _fixed(source[1, 0] * x)
    for y in range(height):
        start_x = _fixed(source[0, 1] * y + source[0, 2]) + HALF
        start_y = _fixed(source[1, 1] * y + source[1, 2]) + HALF
        for x in range(width):
            u, v = _near((start_x + steps[0, x]) >> BITS), _near((start_y + steps[1, x]) >> BITS)
            left, right = _mirrored_at(u >> BITS, width), _mirrored_at((u >> BITS) + 1, width)
            top, bottom = _mirrored_at(v >> BITS, height), _mirrored_at((v >> BITS) + 1, height)
            share_x, share_y = SHARE * np.float32(u & LAST), SHARE * np.float32(v & LAST)
            for c in range(channels):
                out[c, y, x] = _between(image[c], top, bottom, left, right, share_y, share_x)


@compiled
def _fixed(x: float) -> int:
    """A coordinate as a whole number of its smallest parts."""
    return int(np.rint(min(max(x, -FARTHEST), FARTHEST) * (1 << 2 * BITS)))


@compiled
def _near(place: int) -> int:
    return min(max(place, -FARTHEST), FARTHEST - 1)


@compiled
def _mirrored_at(place: int, side: int) -> int:
    """As `mirrored_into` of taps.py, which compiled code of another file must not call: c b a b c … ."""
    if 0 <= place < side:
        return place
    place = abs(place) % max(1, 2 * side - 2)
    return min(place, 2 * side - 2 - place)


@compiled
def _mirrored_behind(place: int, side: int) -> int:
    """A place mirrored behind the outermost pixels into `range(side)`: b a a b … ."""
    if 0 <= place < side:
        return place
    place = place % (2 * side)
    return min(place, 2 * side - 1 - place)


@compiled
def _between(image: Array, top: int, bottom: int, left: int, right: int, share_y: Any, share_x: Any) -> Any:
    """The value between four pixels; written so that it is exact where all four are the same."""
    above = image[top, left] + share_x * (image[top, right] - image[top, left])
    below = image[bottom, left] + share_x * (image[bottom, right] - image[bottom, left])
    return above + share_y * (below - above)


@compiled
def displace(images: Array, fields: Array, across: Array, down: Array, radius: int) -> Array:
    """Images [B, C, H, W] read away from their pixels by as much as fields say that are smoothed first.

    The fields [B, W, 2 H] hold the displacements along x and, behind them, y of every column. They are multiplied
    with the matrices `across` [W, W] and `down` [H, H], which are zero more than `radius` away from their diagonals.
    """
    out = np.empty_like(images)
    for i in range(len(images)):
        _displace_one(images[i], mixed(down, _by_row(mixed(across, fields[i], radius)), radius), out[i])
    return out


@compiled
def _by_row(columns: Array) -> Array:
    """Fields [H, 2 W] from [W, 2 H]."""
    width, height = len(columns), columns.shape[1] // 2
    rows = np.empty((height, 2 * width), columns.dtype)
    for y in range(height):
        for x in range(width):
            rows[y, x], rows[y, width + x] = columns[x, y], columns[x, height + y]
    return rows


@compiled
def mixed(matrix: Array, rows: Array, radius: int) -> Array:
    """matrix · rows, where the matrix is zero more than `radius` away from its diagonal."""
    out = np.zeros_like(rows)
    for y in range(len(rows)):
        source, last = max(0, y - radius), min(len(rows), y + radius + 1)
        while source + 4 <= last:
            _add_four(out[y], matrix[y, source : source + 4], rows[source : source + 4])
            source += 4
        for rest in range(source, last):
            _add(out[y], matrix[y, rest], rows[rest])
    return out


@compiled
def _add_four(total: Array, weights: Array, rows: Array) -> None:
    """As four times `_add`, for the total is read and written once."""
    a, b, c, d = weights[0], weights[1], weights[2], weights[3]
    row_a, row_b, row_c, row_d = rows[0], rows[1], rows[2], rows[3]
    for x in range(total.size):
        total[x] = total[x] + a * row_a[x] + b * row_b[x] + c * row_c[x] + d * row_d[x]


@compiled
def _add(total: Array, weight: Any, row: Array) -> None:
    for x in range(total.size):
        total[x] += weight * row[x]


@compiled
def _displace_one(image: Array, rows: Array, out: Array) -> None:
    channels, height, width = image.shape
    for y in range(height):
        for x in range(width):
            floor_x, floor_y = np.floor(rows[y, x]), np.floor(rows[y, width + x])
            share_x, share_y = rows[y, x] - floor_x, rows[y, width + x] - floor_y
            u, v = x + int(floor_x), y + int(floor_y)
            left, right = _mirrored_behind(u, width), _mirrored_behind(u + 1, width)
            top, bottom = _mirrored_behind(v, height), _mirrored_behind(v + 1, height)
            for c in range(channels):
                out[c, y, x] = _between(image[c], top, bottom, left, right, share_y, share_x)
