"""Angles, rotations and distances that several figures share."""

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
    at_least,
    floor,
    formula,
    maximum,
    minimum,
    sqrt,
    unit,
    where,
)

RADIANS = math.pi / 180


@formula
def turn(degrees: Number) -> tuple[Number, Number]:
    """Cosine and sine, exact at multiples of 90 degrees.

    A series of its own, because library sines differ in the last bit between machines and batch sizes.
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
    """The solid's own three axes after its rotation, about z first, then y, then x."""
    cx, sx = turn(s[TURN_X])
    cy, sy = turn(s[TURN_Y])
    cz, sz = turn(s[TURN_Z])
    first = (cy * cz, cx * sz + sx * sy * cz, sx * sz - cx * sy * cz)
    second = (-cy * sz, cx * cz - sx * sy * sz, sx * cz + cx * sy * sz)
    third = (sy, -sx * cy, cx * cy)
    return first, second, third


@formula
def direction(x: Number, y: Number) -> tuple[Number, Number, Number]:
    """Length of a vector in the image plane and its direction; that of x where the vector vanishes."""
    squared = x * x + y * y
    known = squared > 1e-12
    length = sqrt(where(known, squared, 1e-12))
    return length, where(known, x / length, 1.0), where(known, y / length, 0.0)


@formula
def ellipse_distance(x: Number, y: Number, xx: Number, xy: Number, yy: Number) -> Number:
    """Distance to the ellipse xx·x² + 2·xy·x·y + yy·y² = 1, to first order: (g − 1) / |∇g| of the root g.

    Exact on the outline; a lower bound elsewhere.
    """
    gx, gy = x * xx + y * xy, x * xy + y * yy
    squared = x * gx + y * gy
    root = sqrt(at_least(squared, TINY))
    return (squared - root) / sqrt(at_least(gx * gx + gy * gy, TINY * TINY))


@formula
def covered(distance: Number) -> Number:
    """Share of a pixel that lies inside an outline at this distance (negative inside), in pixels."""
    return unit(HALF - distance)


@formula
def boxed(cover: Number, x: Number, y: Number, p: Any) -> Number:
    """Nothing a pixel or more outside the figure's box, where first-order distances may err at sharp tips."""
    outside = maximum(absolute(x) - p[2], absolute(y) - p[3])
    return minimum(cover, unit(ONE - outside))
