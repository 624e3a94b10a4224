"""Letters and digits, turned about z. See `flat` for the functions of a figure.

An image's table is its letter's: the convex hull's points, then distances on a grid; see `glyphs`. Em units.
"""

from __future__ import annotations

from typing import Any

from farout.data.scenes.columns import SIZE, TURN_Z
from farout.data.scenes.flat import local
from farout.data.scenes.geometry import boxed, covered, turn
from farout.data.scenes.glyphs import CELLS, COLUMNS, HULL, ROWS
from farout.data.scenes.lighting import common
from farout.data.scenes.ops import (
    ZERO,
    Number,
    at_least,
    at_most,
    constant,
    formula,
    single,
    support,
    whole,
)

MIDDLE_X, MIDDLE_Y = constant((COLUMNS - 1) / 2), constant((ROWS - 1) / 2)
LAST_X, LAST_Y = constant(COLUMNS - 2), constant(ROWS - 2)
STEP = constant(COLUMNS)
CORNERS = (2 * HULL, 2 * HULL + 1, 2 * HULL + COLUMNS, 2 * HULL + COLUMNS + 1)
"""Where the table has the distances at a cell's corners, the lower two first."""


@formula
def glyph_reach(s: Any, row: Any) -> tuple[Number, Number]:
    c, d = turn(s[TURN_Z])
    return support(row, HULL, c, -d) * s[SIZE], support(row, HULL, d, c) * s[SIZE]


@formula
def glyph_prepare(s: Any, side: int, row: Any) -> tuple[Number, ...]:
    fine = single(CELLS / (s[SIZE] * side))
    return common(s, side, glyph_reach(s, row)) + local(s, side) + (fine,)


@formula
def cell(x: Number, y: Number, p: Any) -> tuple[Number, Number, Number, Number]:
    """Column and row of the grid's cell that the pixel lies in, and where in the cell."""
    u = (x * p[8] + y * p[9]) * p[11] + MIDDLE_X
    v = (y * p[8] - x * p[9]) * p[11] + MIDDLE_Y
    left, low = whole(at_most(at_least(u, ZERO), LAST_X)), whole(at_most(at_least(v, ZERO), LAST_Y))
    return left, low, u - left, v - low


@formula
def glyph_locate(x: Number, y: Number, p: Any) -> Number:
    """The cell, counted row by row."""
    left, low, _, _ = cell(x, y, p)
    return low * STEP + left


@formula
def glyph_shade(x: Number, y: Number, p: Any, corners: Any) -> tuple[Number, Number, Any]:
    """Distances between the cell's corners by bilinear interpolation."""
    _, _, u, v = cell(x, y, p)
    lower = corners[0] + (corners[1] - corners[0]) * u
    upper = corners[2] + (corners[3] - corners[2]) * u
    return boxed(covered((lower + (upper - lower) * v) * p[10]), x, y, p), p[7], ZERO
