"""Cylinders and cones in parallel projection along z. See `flat` for the functions of a figure.

Both are symmetric about their projected axis, so they are drawn in the frame (u, v): v along the axis, u across.
"""

from __future__ import annotations

from typing import Any

from farout.data.scenes.columns import SIZE
from farout.data.scenes.geometry import clip_to_box, direction, ellipse_distance, pixel_coverage, rotation
from farout.data.scenes.lighting import common, light, phong
from farout.data.scenes.ops import (
    ONE,
    TINY,
    ZERO,
    Number,
    absolute,
    as_float32,
    clamp_max,
    clamp_min,
    constant,
    formula,
    maximum,
    sqrt,
    where,
)
from farout.data.scenes.solids import face_viewer

FLAT = 1e-12
"""Lower bound of squares, for finite gradients."""
THIN = 2.0**-6
"""Minimum half width in pixels of a disc seen edge-on."""
STEEP, LEVEL = constant(2 / 5**0.5), constant(1 / 5**0.5)
"""Components of the normal of a cone as high as wide: across its axis, and along it."""


@formula
def turned_reach(s: Any, row: Any) -> tuple[Number, Number]:
    """Return the reach from half height and radius; of a cone, that of its base, which is larger than its apex's."""
    _, axis, _ = rotation(s)
    r = s[SIZE] * 0.5
    across_x, across_y = sqrt(clamp_min(1.0 - axis[0] * axis[0], FLAT)), sqrt(clamp_min(1.0 - axis[1] * axis[1], FLAT))
    return (absolute(axis[0]) + across_x) * r, (absolute(axis[1]) + across_y) * r


@formula
def disc(u: Number, v: Number, p: Any) -> Number:
    """Return the distance to a cap or base, at least that to its box: first-order distances fail on thin ellipses."""
    box = maximum(absolute(u) - p[15], absolute(v) - p[17])
    return maximum(ellipse_distance(u, v, p[18], ZERO, p[19]), box)


@formula
def frame(s: Any, side: int, axis: tuple[Number, ...]) -> tuple[Number, ...]:
    """Return direction u; radius, offset along v and half width of a disc; its quadratic form; slope of the axis."""
    length, x, y = direction(axis[0], axis[1])
    r = s[SIZE] * 0.5 * side
    b = clamp_min(r * absolute(axis[2]), THIN)
    sizes = as_float32(r), as_float32(r * length), as_float32(b), as_float32(1.0 / (r * r)), as_float32(1.0 / (b * b))
    lit = common(s, side, turned_reach(s, s)) + light(s, y, -x)
    across, slope = (as_float32(y), as_float32(-x)), (as_float32(axis[2]), as_float32(length))
    return lit + across + sizes + slope


@formula
def cylinder_prepare(s: Any, side: int, row: Any) -> tuple[Number, ...]:
    _, axis, _ = rotation(s)
    p = frame(s, side, face_viewer(axis))
    return p + phong(p[14] * ZERO, p[21], p[20], p)


@formula
def cylinder_shade(x: Number, y: Number, p: Any, row: Any) -> tuple[Number, Number, Number]:
    """Return cover, factor and highlight; the silhouette is a cap extruded along v, the front cap is the upper one."""
    u, v = x * p[13] + y * p[14], y * p[13] - x * p[14]
    beyond = absolute(v) - p[16]
    round_end = ellipse_distance(u, clamp_min(beyond, ZERO), p[18], ZERO, p[19])
    cover = clip_to_box(pixel_coverage(maximum(maximum(round_end, absolute(u) - p[15]), beyond - p[17])), x, y, p)
    across = clamp_max(clamp_min(u / p[15], -ONE), ONE)
    ahead = sqrt(clamp_min(ONE - across * across, TINY))
    factor, highlight = phong(across, -p[20] * ahead, p[21] * ahead, p)
    cap = where(v > p[16], ONE, pixel_coverage(disc(u, v - p[16], p)))  # only background lies beyond its outer half
    return cover, factor + cap * (p[22] - factor), highlight + cap * (p[23] - highlight)


@formula
def tangent(r: Number, b: Number, apex: Number) -> tuple[Number, ...]:
    """Return the tangent from the apex to the base ellipse: normal, offset, and v of the point of contact.

    If the apex is seen within the base there is no tangent; v is then outside the figure.
    """
    outside = apex * apex - b * b
    pointed = outside > 1e-6
    root, far = sqrt(where(pointed, outside, 1.0)), where(pointed, apex, 1.0)
    length = sqrt(root * root + r * r)
    touch = where(pointed, b * b / far, 4.0 * r)
    return as_float32(root / length), as_float32(r / length), as_float32(r / length * apex), as_float32(touch)


@formula
def cone_prepare(s: Any, side: int, row: Any) -> tuple[Number, ...]:
    _, axis, _ = rotation(s)
    r = s[SIZE] * 0.5 * side
    length, _, _ = direction(axis[0], axis[1])
    line = tangent(r, clamp_min(r * absolute(axis[2]), THIN), 2.0 * r * length)
    p = frame(s, side, axis)
    base = phong(p[14] * ZERO, -p[21], -p[20], p)
    return p + base + line + (as_float32(where(axis[2] < 0.0, 1.0, 0.0)),)


@formula
def cone_shade(x: Number, y: Number, p: Any, row: Any) -> tuple[Number, Number, Number]:
    """Return cover, factor and highlight; the silhouette is the base and two tangents to the apex."""
    u, v = x * p[13] + y * p[14], y * p[13] - x * p[14] + p[16]
    base = disc(u, v, p)
    distance = maximum(where(v > p[27], absolute(u) * p[24] + v * p[25] - p[26], base), -v - p[17])
    factor, highlight = mantle(u, v - (p[16] + p[16]), p)
    visible = where(v > p[27], pixel_coverage(base), ONE) * p[28]
    cover = clip_to_box(pixel_coverage(distance), x, y, p)
    return cover, factor + visible * (p[22] - factor), highlight + visible * (p[23] - highlight)


@formula
def mantle(u: Number, v: Number, p: Any) -> tuple[Number, Number]:
    """Return factor and highlight of the lateral surface at (u, v) from the apex: the normal is constant along a line
    to the apex.

    With the base's rim at angle t, that line is seen through (u, v) if v·cos t + u·c·sin t = m, where c is the slope
    of the axis; of the two solutions this is the front one.
    """
    c, m = p[20], -(p[16] + p[16]) / p[15] * u
    squared = clamp_min(v * v + u * u * (c * c), TINY)
    root = sqrt(clamp_min(squared - m * m, TINY))
    length = sqrt(squared * maximum(squared, m * m))
    cosine, sine = (v * m + u * c * root) / length, (u * c * m - v * root) / length
    return phong(
        cosine * STEEP,
        p[21] * LEVEL - c * sine * STEEP,
        p[21] * sine * STEEP + c * LEVEL,
        p,
    )
