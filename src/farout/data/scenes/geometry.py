"""Angles, rotations and distances for several figures."""

from __future__ import annotations

import math
from typing import Any

from farout.data.scenes.columns import TURN_X, TURN_Y, TURN_Z
from farout.data.scenes.ops import (
    HALF,
    ONE,
    TINY,
    Number,
    absolute,
    clamp_min,
    clamp_unit,
    floor,
    formula,
    maximum,
    minimum,
    sqrt,
    where,
)

RADIANS = math.pi / 180


@formula
def turn(degrees: Number) -> tuple[Number, Number]:
    """Return cosine and sine, exact at multiples of 90 degrees.

    Computed by a power series, because library sines differ in the last bit between machines and batch sizes.
    """
    quarter = floor(degrees / 90.0 + 0.5)
    x = (degrees - quarter * 90.0) * RADIANS
    q = x * x
    s = x * (1 - q / 6 * (1 - q / 20 * (1 - q / 42 * (1 - q / 72 * (1 - q / 110 * (1 - q / 156 * (1 - q / 210)))))))
    c = 1 - q / 2 * (1 - q / 12 * (1 - q / 30 * (1 - q / 56 * (1 - q / 90 * (1 - q / 132 * (1 - q / 182))))))
    quarter = quarter - 4.0 * floor(quarter / 4.0)
    odd = (quarter == 1.0) | (quarter == 3.0)
    cosine, sine = where(odd, s, c), where(odd, c, s)
    cosine = where((quarter == 1.0) | (quarter == 2.0), -cosine, cosine)
    return cosine, where(quarter >= 2.0, -sine, sine)


@formula
def rotation(s: Any) -> tuple[tuple[Number, ...], tuple[Number, ...], tuple[Number, ...]]:
    """Return the three axes of the solid after its rotation about z, then y, then x."""
    cx, sx = turn(s[TURN_X])
    cy, sy = turn(s[TURN_Y])
    cz, sz = turn(s[TURN_Z])
    first = (cy * cz, cx * sz + sx * sy * cz, sx * sz - cx * sy * cz)
    second = (-cy * sz, cx * cz - sx * sy * sz, sx * cz + cx * sy * sz)
    third = (sy, -sx * cy, cx * cy)
    return first, second, third


@formula
def direction(x: Number, y: Number) -> tuple[Number, Number, Number]:
    """Return length and direction of a vector in the image plane; the direction of x for a zero vector."""
    squared = x * x + y * y
    known = squared > 1e-12
    length = sqrt(where(known, squared, 1e-12))
    return length, where(known, x / length, 1.0), where(known, y / length, 0.0)


@formula
def ellipse_distance(x: Number, y: Number, xx: Number, xy: Number, yy: Number) -> Number:
    """Return the distance to the ellipse xx·x² + 2·xy·x·y + yy·y² = 1, to first order: (g − 1) / |∇g| of the root g.

    Exact on the outline; a lower bound elsewhere.
    """
    gx, gy = x * xx + y * xy, x * xy + y * yy
    squared = x * gx + y * gy
    root = sqrt(clamp_min(squared, TINY))
    return (squared - root) / sqrt(clamp_min(gx * gx + gy * gy, TINY * TINY))


@formula
def pixel_coverage(distance: Number) -> Number:
    """Return the fraction of a pixel inside an outline at this distance in pixels (negative inside)."""
    return clamp_unit(HALF - distance)


@formula
def clip_to_box(cover: Number, x: Number, y: Number, p: Any) -> Number:
    """Set the coverage to 0 a pixel or more outside the figure's box: first-order distances may err at sharp tips."""
    outside = maximum(absolute(x) - p[2], absolute(y) - p[3])
    return minimum(cover, clamp_unit(ONE - outside))
