"""Bilinear warping, compiled: the affine map and the displacements of `elastic`.

The original uses OpenCV's affine map, which up to version 4 rounds coordinates to 1/32 pixel. This is reproduced here,
as in the published sets; exact coordinates, as in version 5, change sharp images by up to six levels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from farout.compiling import compiled

Array = NDArray[Any]

BITS = 5
"""Fraction bits of the coordinates of the affine map; sums have as many bits more and are then rounded."""
LAST, HALF, SHARE = (1 << BITS) - 1, 1 << BITS - 1, np.float32(1 / (1 << BITS))
FARTHEST = 1 << 15 + BITS
"""Limit of the coordinates on both sides, as in OpenCV; only a nearly singular map reaches it."""


def inverse_maps(moves: Array, height: int, width: int) -> Array:
    """Return the inverse affine maps [B, 2, 3] for moves [B, 3, 2] (x, y) of three points.

    The points p are (+, +), (+, −) and (−, −) a third of the shorter side from the center. With q the moved points,
    (x, y) = q₁ + s·(q₀ − q₁) + t·(q₂ − q₁) is read at p₁ + s·(p₀ − p₁) + t·(p₂ − p₁). A row [a, b, c] of the result
    means a·x + b·y + c; a singular map reads p₁ everywhere.
    """
    third = max(1, min(height, width) // 3)
    right, top = width // 2 + third, height // 2 - third
    points = np.array([[right, top + 2 * third], [right, top], [right - 2 * third, top]], np.float32)
    moved = (points + moves).astype(np.float64)  # rounded to float32 first, as in the original
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
    """Return images [B, C, H, W] read at the coordinates of affine maps [B, 2, 3]."""
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
            u, v = _clamp((start_x + steps[0, x]) >> BITS), _clamp((start_y + steps[1, x]) >> BITS)
            left, right = _mirrored_at(u >> BITS, width), _mirrored_at((u >> BITS) + 1, width)
            top, bottom = _mirrored_at(v >> BITS, height), _mirrored_at((v >> BITS) + 1, height)
            share_x, share_y = SHARE * np.float32(u & LAST), SHARE * np.float32(v & LAST)
            for c in range(channels):
                out[c, y, x] = _interpolate(image[c], top, bottom, left, right, share_y, share_x)


@compiled
def _fixed(x: float) -> int:
    """Return a coordinate as a fixed-point number."""
    return int(np.rint(min(max(x, -FARTHEST), FARTHEST) * (1 << 2 * BITS)))


@compiled
def _clamp(place: int) -> int:
    return min(max(place, -FARTHEST), FARTHEST - 1)


@compiled
def _mirrored_at(place: int, side: int) -> int:
    """Return an index mirrored at the outermost pixels: c b a b c … ; a copy of `mirror_indices`, see `compiled`."""
    if 0 <= place < side:
        return place
    place = abs(place) % max(1, 2 * side - 2)
    return min(place, 2 * side - 2 - place)


@compiled
def _mirrored_behind(place: int, side: int) -> int:
    """Return an index mirrored behind the outermost pixels into `range(side)`: b a a b … ."""
    if 0 <= place < side:
        return place
    place = place % (2 * side)
    return min(place, 2 * side - 1 - place)


@compiled
def _interpolate(image: Array, top: int, bottom: int, left: int, right: int, share_y: Any, share_x: Any) -> Any:
    """Return the bilinear interpolation of four pixels, exact if all four are equal."""
    above = image[top, left] + share_x * (image[top, right] - image[top, left])
    below = image[bottom, left] + share_x * (image[bottom, right] - image[bottom, left])
    return above + share_y * (below - above)


@compiled
def displace(images: Array, fields: Array, across: Array, down: Array, radius: int) -> Array:
    """Return images [B, C, H, W] displaced by smoothed fields.

    The fields [B, W, 2 H] hold for every column the displacements along x, then along y. They are multiplied by the
    matrices `across` [W, W] and `down` [H, H], which are zero more than `radius` from their diagonals.
    """
    out = np.empty_like(images)
    for i in range(len(images)):
        _displace_one(
            images[i], banded_product(down, _by_row(banded_product(across, fields[i], radius)), radius), out[i]
        )
    return out


@compiled
def _by_row(columns: Array) -> Array:
    """Return fields [H, 2 W] from [W, 2 H]."""
    width, height = len(columns), columns.shape[1] // 2
    rows = np.empty((height, 2 * width), columns.dtype)
    for y in range(height):
        for x in range(width):
            rows[y, x], rows[y, width + x] = columns[x, y], columns[x, height + y]
    return rows


@compiled
def banded_product(matrix: Array, rows: Array, radius: int) -> Array:
    """Return matrix · rows for a matrix that is zero more than `radius` from its diagonal."""
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
    """Do `_add` for four rows; the total is read and written only once."""
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
                out[c, y, x] = _interpolate(image[c], top, bottom, left, right, share_y, share_x)
