"""Pillow's box filter, compiled."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farout.compiling import compiled

Array = NDArray[Any]

BITS = 22
"""Weights of pixels are integer multiples of 2⁻²², as in Pillow."""
ROUND = 1 << BITS - 1
WHITE, HALF = np.float32(255), np.float32(0.5)


@functools.lru_cache(maxsize=16)
def box_bounds(side: int, smaller: int) -> Array:
    """Return for `smaller` boxes over `side` pixels: first pixel, the one after the last, and weight; [smaller, 3].

    A box contains the pixels whose centers lie in it. For centers on its edge Pillow's rounding decides: it computes
    first a range of pixels, then the filter, by different formulas.
    """
    scale = side / smaller
    middles, places = (np.arange(smaller)[:, None] + 0.5) * scale, np.arange(side)
    near = (places >= np.floor(middles - scale / 2 + 0.5)) & (places < np.floor(middles + scale / 2 + 0.5))
    away = (places - middles + 0.5) * (1 / scale)
    inside = near & (away > -0.5) & (away <= 0.5)
    first, count = inside.argmax(1), inside.sum(1)
    return np.stack([first, first + count, np.floor(2**BITS / count + 0.5).astype(np.int64)], 1)


@functools.lru_cache(maxsize=16)
def nearest_indices(side: int, smaller: int) -> Array:
    """Return the index among `smaller` pixels of the one that each of `side` pixels repeats."""
    return ((np.arange(side) + 0.5) * (smaller / side)).astype(np.int64)


@compiled
def pixelate(images: Array, columns: Array, rows: Array, from_column: Array, from_row: Array) -> Array:
    """Reduce images [N, H, W] by boxes of columns, then of rows, rounded to 8 bits after each, and enlarge them."""
    out, row = np.empty_like(images), np.empty(images.shape[2], np.float32)
    for i in range(len(images)):
        small = _lower(_narrower(images[i], columns), rows)
        last = -1
        for y in range(len(from_row)):
            if from_row[y] != last:
                last = from_row[y]
                for x in range(row.size):
                    row[x] = np.float32(small[last, from_column[x]]) / WHITE
            out[i, y] = row
    return out


@compiled
def _narrower(image: Array, columns: Array) -> Array:
    out, sums = np.empty((len(image), len(columns)), np.int32), np.zeros(image.shape[1] + 1, np.int32)
    for y in range(len(image)):
        for x in range(image.shape[1]):
            sums[x + 1] = sums[x] + np.int32(image[y, x] * WHITE + HALF)
        for x in range(len(columns)):
            total = sums[columns[x, 1]] - sums[columns[x, 0]]
            out[y, x] = (total * columns[x, 2] + ROUND) >> BITS
    return out


@compiled
def _lower(levels: Array, rows: Array) -> Array:
    out = np.zeros((len(rows), levels.shape[1]), np.int32)
    for y in range(len(rows)):
        weight = np.int32(rows[y, 2])
        for source in range(rows[y, 0], rows[y, 1]):
            for x in range(levels.shape[1]):
                out[y, x] += levels[source, x]
        for x in range(levels.shape[1]):
            out[y, x] = (out[y, x] * weight + ROUND) >> BITS
    return out
