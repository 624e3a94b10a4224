"""The formulas as compiled loops over images and pixels."""

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
"""Added and taken away again, it rounds a float32 to the nearest integer, halves to even."""


@cache
def sources() -> str:
    """Hash of the formulas' source.

    numba keeps compiled code by the file of the outer function alone, and by the values that it closes over: with this
    hash among them, edited formulas are compiled anew.
    """
    texts = [Path(__file__).with_name(f"{name}.py").read_bytes() for name in FORMULAS]
    return hashlib.sha256(b"".join(texts)).hexdigest()


@cache
def outliner(outline: Callable[..., None]) -> Any:
    """Compiled: the tables of several images."""
    version = sources()

    @njit(cache=True)
    def fill(scenes: Any, places: Any, rows: Any) -> None:
        assert version
        for i in range(len(places)):
            outline(scenes[places[i]], rows[i])

    return fill


@cache
def painter(primitive: Primitive) -> Any:
    """Compiled: several images, each over its own window of pixels.

    Lookups at places of a pixel's own keep compilers from working on several pixels at a time, so they have a loop of
    their own.
    """
    version = sources()
    prepare, shade, locate, steps = primitive.prepare, primitive.shade, primitive.locate, primitive.steps

    @njit(cache=True, error_model="numpy")
    def paint(scenes: Any, places: Any, rows: Any, row_of: Any, pixels: Any) -> None:
        assert version
        side = pixels.shape[2]
        covers, factors, highlights = np.empty(side, np.float32), np.empty(side, np.float32), np.empty(side, np.float32)
        located, found = np.empty(side, np.float32), np.empty((len(steps), side), np.float32)
        for n in range(len(places)):
            row = rows[row_of[n]]
            p = prepare(scenes[places[n]], side, row)
            image = pixels[places[n]]
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
                        look(row[steps[k] :], located[: right - left], found[k])
                    for j in range(right - left):
                        covers[j], factors[j], highlights[j] = shade(np.float32(j + left) - p[0], y, p, found[:, j])
                write(image[0, i, left:right], covers, factors, highlights, p[4])
                write(image[1, i, left:right], covers, factors, highlights, p[5])
                write(image[2, i, left:right], covers, factors, highlights, p[6])

    return paint


@formula
def window(center: Any, reach: Any, side: int) -> tuple[int, int]:
    """First pixel that a figure may touch, and the one after the last; the same where it is out of sight."""
    first = max(0, int(center - reach))
    return first, max(first, min(side, int(center + reach) + 2))


@formula
def look(row: Any, places: Any, found: Any) -> None:
    """Numbers at places of a table."""
    for j in range(len(places)):
        found[j] = gather(row, places[j])


@formula
def write(line: Any, covers: Any, factors: Any, highlights: Any, channel: Any) -> None:
    """One channel of a row of pixels."""
    for j in range(len(line)):
        value = blend(covers[j], factors[j], highlights[j], channel)
        line[j] = np.uint8(np.int32((value * SCALE + ROUND) - ROUND))
