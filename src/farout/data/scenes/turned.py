"""Cylinders and cones, seen along z by parallel rays. See `flat` for the functions of a figure.

Both are symmetric about their projected axis, so they are drawn in the frame (u, v): v along the axis, u across.
"""

from __future__ import annotations

from typing import Any

from farout.data.scenes.columns import SIZE
from farout.data.scenes.geometry import boxed, covered, direction, ellipse_distance, rotation
from farout.data.scenes.lighting import common, light, phong
from farout.data.scenes.ops import (
    ONE,
    TINY,
    ZERO,
    Number,
    absolute,
    at_least,
    at_most,
    constant,
    formula,
    maximum,
    single,
    sqrt,
    where,
)
from farout.data.scenes.solids import towards

FLAT = 1e-12
"""Kept below squares, for finite gradients."""
THIN = 2.0**-6
"""Half width in pixels of a disc seen edge-on, at least."""
STEEP, LEVEL = constant(2 / 5**0.5), constant(1 / 5**0.5)
"""Of the normal of a cone as high as wide: across its axis, and along it."""


@formula
def turned_reach(s: Any, row: Any) -> tuple[Number, Number]:
    """Half height along the axis and radius across; that of a cone's base, which reaches farther than its apex."""
    _, axis, _ = rotation(s)
    r = s[SIZE] * 0.5
    across_x, across_y = sqrt(at_least(1.0 - axis[0] * axis[0], FLAT)), sqrt(at_least(1.0 - axis[1] * axis[1], FLAT))
    return (absolute(axis[0]) + across_x) * r, (absolute(axis[1]) + across_y) * r


@formula
def disc(u: Number, v: Number, p: Any) -> Number:
    """Distance to a cap or base; bounded by its box, since first-order distances fail on very thin ellipses."""
    box = maximum(absolute(u) - p[15], absolute(v) - p[17])
    return maximum(ellipse_distance(u, v, p[18], ZERO, p[19]), box)


@formula
def frame(s: Any, side: int, axis: tuple[Number, ...]) -> tuple[Number, ...]:
    """Direction u; radius, shift of a disc along v, half width of a disc; its quadratic form; slope of the axis."""
    length, x, y = direction(axis[0], axis[1])
    r = s[SIZE] * 0.5 * side
    b = at_least(r * absolute(axis[2]), THIN)
    sizes = single(r), single(r * length), single(b), single(1.0 / (r * r)), single(1.0 / (b * b))
    lit = common(s, side, turned_reach(s, s)) + light(s, y, -x)
    across, slope = (single(y), single(-x)), (single(axis[2]), single(length))
    return lit + across + sizes + slope


@formula
def cylinder_prepare(s: Any, side: int, row: Any) -> tuple[Number, ...]:
    _, axis, _ = rotation(s)
    p = frame(s, side, towards(axis))
    return p + phong(p[14] * ZERO, p[21], p[20], p)


@formula
def cylinder_shade(x: Number, y: Number, p: Any, row: Any) -> tuple[Number, Number, Number]:
    """The silhouette is a cap drawn out along v; the front cap is the upper one."""
    u, v = x * p[13] + y * p[14], y * p[13] - x * p[14]
    beyond = absolute(v) - p[16]
    round_end = ellipse_distance(u, at_least(beyond, ZERO), p[18], ZERO, p[19])
    cover = boxed(covered(maximum(maximum(round_end, absolute(u) - p[15]), beyond - p[17])), x, y, p)
    across = at_most(at_least(u / p[15], -ONE), ONE)
    ahead = sqrt(at_least(ONE - across * across, TINY))
    factor, highlight = phong(across, -p[20] * ahead, p[21] * ahead, p)
    cap = where(v > p[16], ONE, covered(disc(u, v - p[16], p)))  # beyond its outer half there is only background
    return cover, factor + cap * (p[22] - factor), highlight + cap * (p[23] - highlight)


@formula
def tangent(r: Number, b: Number, apex: Number) -> tuple[Number, ...]:
    """The line from the apex that touches the base ellipse: normal and offset, and where the two touch, along v.

    Where the apex is seen within the base there is no such line: the place is then out of reach.
    """
    outside = apex * apex - b * b
    pointed = outside > 1e-6
    root, far = sqrt(where(pointed, outside, 1.0)), where(pointed, apex, 1.0)
    length = sqrt(root * root + r * r)
    touch = where(pointed, b * b / far, 4.0 * r)
    return single(root / length), single(r / length), single(r / length * apex), single(touch)


@formula
def cone_prepare(s: Any, side: int, row: Any) -> tuple[Number, ...]:
    _, axis, _ = rotation(s)
    r = s[SIZE] * 0.5 * side
    length, _, _ = direction(axis[0], axis[1])
    line = tangent(r, at_least(r * absolute(axis[2]), THIN), 2.0 * r * length)
    p = frame(s, side, axis)
    base = phong(p[14] * ZERO, -p[21], -p[20], p)
    return p + base + line + (single(where(axis[2] < 0.0, 1.0, 0.0)),)


@formula
def cone_shade(x: Number, y: Number, p: Any, row: Any) -> tuple[Number, Number, Number]:
    """The silhouette is the base and, past the tangent points, two lines to the apex."""
    u, v = x * p[13] + y * p[14], y * p[13] - x * p[14] + p[16]
    base = disc(u, v, p)
    distance = maximum(where(v > p[27], absolute(u) * p[24] + v * p[25] - p[26], base), -v - p[17])
    factor, highlight = mantle(u, v - (p[16] + p[16]), p)
    seen = where(v > p[27], covered(base), ONE) * p[28]
    cover = boxed(covered(distance), x, y, p)
    return cover, factor + seen * (p[22] - factor), highlight + seen * (p[23] - highlight)


@formula
def mantle(u: Number, v: Number, p: Any) -> tuple[Number, Number]:
    """Light on the lateral surface at (u, v) from the apex: the normal is the same all along a line to the apex.

    With the base's rim at angle t, that line is seen through (u, v) if v·cos t + u·c·sin t = m, where c is the slope
    of the axis; of the two solutions this is the front one.
    """
    c, m = p[20], -(p[16] + p[16]) / p[15] * u
    squared = at_least(v * v + u * u * (c * c), TINY)
    root = sqrt(at_least(squared - m * m, TINY))
    length = sqrt(squared * maximum(squared, m * m))
    cosine, sine = (v * m + u * c * root) / length, (u * c * m - v * root) / length
    return phong(
        cosine * STEEP,
        p[21] * LEVEL - c * sine * STEEP,
        p[21] * sine * STEEP + c * LEVEL,
        p,
    )
