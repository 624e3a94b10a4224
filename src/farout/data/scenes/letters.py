"""Letters and digits, rotated about z. See `flat` for the functions of a figure.

The table of an image is that of its letter: points of the convex hull, then distances on a grid, in em; see `glyphs`.
"""

from __future__ import annotations

from typing import Any

from farout.data.scenes.columns import SIZE, TURN_Z
from farout.data.scenes.flat import local
from farout.data.scenes.geometry import clip_to_box, pixel_coverage, turn
from farout.data.scenes.glyphs import CELLS, COLUMNS, HULL, ROWS
from farout.data.scenes.lighting import common
from farout.data.scenes.ops import (
    ZERO,
    Number,
    as_float32,
    clamp_max,
    clamp_min,
    constant,
    formula,
    support,
    truncate,
)

MIDDLE_X, MIDDLE_Y = constant((COLUMNS - 1) / 2), constant((ROWS - 1) / 2)
LAST_X, LAST_Y = constant(COLUMNS - 2), constant(ROWS - 2)
STEP = constant(COLUMNS)
CORNERS = (2 * HULL, 2 * HULL + 1, 2 * HULL + COLUMNS, 2 * HULL + COLUMNS + 1)
"""Offsets in the table of the distances at a cell's corners, the lower two first."""


@formula
def glyph_reach(s: Any, row: Any) -> tuple[Number, Number]:
    c, d = turn(s[TURN_Z])
    return support(row, HULL, c, -d) * s[SIZE], support(row, HULL, d, c) * s[SIZE]


@formula
def glyph_prepare(s: Any, side: int, row: Any) -> tuple[Number, ...]:
    fine = as_float32(CELLS / (s[SIZE] * side))
    return common(s, side, glyph_reach(s, row)) + local(s, side) + (fine,)


@formula
def cell(x: Number, y: Number, p: Any) -> tuple[Number, Number, Number, Number]:
    """Return column and row of the grid cell of a pixel, and the position within the cell."""
    u = (x * p[8] + y * p[9]) * p[11] + MIDDLE_X
    v = (y * p[8] - x * p[9]) * p[11] + MIDDLE_Y
    left, low = truncate(clamp_max(clamp_min(u, ZERO), LAST_X)), truncate(clamp_max(clamp_min(v, ZERO), LAST_Y))
    return left, low, u - left, v - low


@formula
def glyph_locate(x: Number, y: Number, p: Any) -> Number:
    """Return the index of the cell, counted row by row."""
    left, low, _, _ = cell(x, y, p)
    return low * STEP + left


@formula
def glyph_shade(x: Number, y: Number, p: Any, corners: Any) -> tuple[Number, Number, Any]:
    """Return cover, factor and highlight; the distance is interpolated bilinearly between the cell's corners."""
    _, _, u, v = cell(x, y, p)
    lower = corners[0] + (corners[1] - corners[0]) * u
    upper = corners[2] + (corners[3] - corners[2]) * u
    return clip_to_box(pixel_coverage((lower + (upper - lower) * v) * p[10]), x, y, p), p[7], ZERO
