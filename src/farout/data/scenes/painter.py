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
from farout.data.scenes.ops import constant, formula

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
    def fill(scenes: Any, rows: Any) -> None:
        assert version
        for image in range(len(scenes)):
            outline(scenes[image], rows[image])

    return fill


@cache
def painter(prepare: Callable[..., Any], shade: Callable[..., Any]) -> Any:
    """Compiled: several images, each over its own window of pixels."""
    version = sources()

    @njit(cache=True, error_model="numpy")
    def paint(scenes: Any, rows: Any, row_of: Any, image_of: Any, pixels: Any) -> None:
        assert version
        side = pixels.shape[2]
        covers, factors, highlights = np.empty(side, np.float32), np.empty(side, np.float32), np.empty(side, np.float32)
        for place in range(len(scenes)):
            row = rows[row_of[place]]
            p = prepare(scenes[place], side, row)
            image = pixels[image_of[place]]
            left, right = max(0, int(p[0] - p[2])), min(side, int(p[0] + p[2]) + 2)
            top, bottom = max(0, int(p[1] - p[3])), min(side, int(p[1] + p[3]) + 2)
            for i in range(top, bottom):
                y = p[1] - np.float32(i)
                for j in range(right - left):
                    covers[j], factors[j], highlights[j] = shade(np.float32(j + left) - p[0], y, p, row)
                write(image[0, i, left:right], covers, factors, highlights, p[4])
                write(image[1, i, left:right], covers, factors, highlights, p[5])
                write(image[2, i, left:right], covers, factors, highlights, p[6])

    return paint


@formula
def write(line: Any, covers: Any, factors: Any, highlights: Any, channel: Any) -> None:
    """One channel of a row of pixels."""
    for j in range(len(line)):
        value = blend(covers[j], factors[j], highlights[j], channel)
        line[j] = np.uint8(np.int32((value * SCALE + ROUND) - ROUND))
