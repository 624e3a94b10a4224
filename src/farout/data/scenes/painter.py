"""Compile the formulas to loops over images and pixels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from farout.data.scenes.lighting import blend
from farout.data.scenes.ops import constant, formula, gather
from farout.data.scenes.primitives import Primitive

FORMULAS = (
    "columns", "flat", "geometry", "glyphs", "letters", "lighting", "ops", "outlines", "scene", "solids", "turned",
)  # fmt: skip
"""Modules that are compiled."""
SCALE = constant(255)
ROUND = constant(3 * 2**22)
"""Adding and subtracting it rounds a float32 to the nearest integer, halves to even."""


@cache
def hash_sources() -> str:
    """Return a hash of the source of all formulas.

    numba caches compiled code by the file of the outer function and by the values it closes over: with this hash among
    them, edited formulas are compiled again.
    """
    texts = [Path(__file__).with_name(f"{name}.py").read_bytes() for name in FORMULAS]
    return hashlib.sha256(b"".join(texts)).hexdigest()


@cache
def compile_outline(outline: Callable[..., None]) -> Any:
    """Return a compiled function that fills the outline tables of several images."""
    version = hash_sources()

    @njit(cache=True)
    def fill(scenes: Any, indices: Any, rows: Any) -> None:
        assert version
        for i in range(len(indices)):
            outline(scenes[indices[i]], rows[i])

    return fill


@cache
def compile_painter(primitive: Primitive) -> Any:
    """Return a compiled function that paints several images, each over the window of pixels of its figure.

    Table lookups at an index that differs between pixels prevent vectorization, so they run in a separate loop.
    """
    version = hash_sources()
    prepare, shade, locate, steps = primitive.prepare, primitive.shade, primitive.locate, primitive.steps

    @njit(cache=True, error_model="numpy")
    def paint(scenes: Any, indices: Any, rows: Any, row_of: Any, pixels: Any) -> None:
        assert version
        side = pixels.shape[2]
        covers, factors, highlights = np.empty(side, np.float32), np.empty(side, np.float32), np.empty(side, np.float32)
        located, entries = np.empty(side, np.float32), np.empty((len(steps), side), np.float32)
        for n in range(len(indices)):
            row = rows[row_of[n]]
            p = prepare(scenes[indices[n]], side, row)
            image = pixels[indices[n]]
            left, right = window(p[0], p[2], side)
            top, bottom = window(p[1], p[3], side)
            for i in range(top, bottom):
                y = p[1] - np.float32(i)
                if locate is None:
                    for j in range(right - left):
                        covers[j], factors[j], highlights[j] = shade(np.float32(j + left) - p[0], y, p, row)
                else:
                    for j in range(right - left):
                        located[j] = locate(np.float32(j + left) - p[0], y, p)
                    for k in range(len(steps)):
                        read_entries(row[steps[k] :], located[: right - left], entries[k])
                    for j in range(right - left):
                        covers[j], factors[j], highlights[j] = shade(np.float32(j + left) - p[0], y, p, entries[:, j])
                write(image[0, i, left:right], covers, factors, highlights, p[4])
                write(image[1, i, left:right], covers, factors, highlights, p[5])
                write(image[2, i, left:right], covers, factors, highlights, p[6])

    return paint


@formula
def window(center: Any, reach: Any, side: int) -> tuple[int, int]:
    """Return the first pixel that a figure may touch and the one after the last; equal if none is visible."""
    first = max(0, int(center - reach))
    return first, max(first, min(side, int(center + reach) + 2))


@formula
def read_entries(row: Any, indices: Any, entries: Any) -> None:
    """Write the table entries at these indices to `entries`."""
    for j in range(len(indices)):
        entries[j] = gather(row, indices[j])


@formula
def write(line: Any, covers: Any, factors: Any, highlights: Any, channel: Any) -> None:
    """Write one channel of a row of pixels."""
    for j in range(len(line)):
        value = blend(covers[j], factors[j], highlights[j], channel)
        line[j] = np.uint8(np.int32((value * SCALE + ROUND) - ROUND))
