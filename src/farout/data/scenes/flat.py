"""Ellipses, polygons and smooth random outlines, rotated about z.

Each figure has three functions: `reach` returns its extent from the center in fractions of the side; `prepare` the
parameters that are the same for all pixels; `shade` cover, factor of the color and highlight at a pixel. If pixels read
a table at different indices, `locate` returns the index of a pixel, and `shade` gets the entries read there.
"""

from __future__ import annotations

from typing import Any

from farout.data.scenes.columns import ASPECT, KIND, SIZE, TURN_Z
from farout.data.scenes.geometry import clip_to_box, ellipse_distance, pixel_coverage, turn
from farout.data.scenes.lighting import common
from farout.data.scenes.ops import (
    TINY,
    TWO,
    ZERO,
    Number,
    absolute,
    as_float32,
    clamp_min,
    constant,
    entry,
    formula,
    sqrt,
    support,
    truncate,
    where,
)
from farout.data.scenes.outlines import EDGES, SECTORS
from farout.data.scenes.scene import KINDS

ELLIPSE = KINDS.index("ellipse")
QUARTER, ALL, FOUR = constant(SECTORS / 4), constant(SECTORS), constant(4)
CHORD = (2 * SECTORS, 3 * SECTORS, 4 * SECTORS)
"""Offsets in the table of the normals (x, y) and offsets of a smooth outline."""


@formula
def ellipse_axes(s: Any) -> tuple[Number, Number, Number, Number]:
    """Return the half axes and the direction of the first."""
    c, d = turn(s[TURN_Z])
    a = s[SIZE] * 0.5
    return a, a * where(s[KIND] == ELLIPSE, s[ASPECT], 1.0), c, d


@formula
def ellipse_reach(s: Any, row: Any) -> tuple[Number, Number]:
    a, b, c, d = ellipse_axes(s)
    return sqrt(a * a * c * c + b * b * d * d), sqrt(a * a * d * d + b * b * c * c)


@formula
def ellipse_prepare(s: Any, side: int, row: Any) -> tuple[Number, ...]:
    a, b, c, d = ellipse_axes(s)
    p, q = 1.0 / (a * a * side * side), 1.0 / (b * b * side * side)
    form = as_float32(p * c * c + q * d * d), as_float32((p - q) * c * d), as_float32(p * d * d + q * c * c)
    return common(s, side, ellipse_reach(s, row)) + form


@formula
def ellipse_shade(x: Number, y: Number, p: Any, row: Any) -> tuple[Number, Number, Any]:
    return clip_to_box(pixel_coverage(ellipse_distance(x, y, p[8], p[9], p[10])), x, y, p), p[7], ZERO


@formula
def polygon_reach(s: Any, row: Any) -> tuple[Number, Number]:
    c, d = turn(s[TURN_Z])
    a = s[SIZE]
    return support(row, EDGES, c, -d) * a, support(row, EDGES, d, c) * a


@formula
def star_reach(s: Any, row: Any) -> tuple[Number, Number]:
    c, d = turn(s[TURN_Z])
    a = s[SIZE]
    return support(row, SECTORS, c, -d) * a, support(row, SECTORS, d, c) * a


@formula
def local(s: Any, side: int) -> tuple[Number, ...]:
    """Return cosine and sine of the rotation, and the size in pixels."""
    c, d = turn(s[TURN_Z])
    return as_float32(c), as_float32(d), as_float32(s[SIZE] * side)


@formula
def polygon_prepare(s: Any, side: int, row: Any) -> tuple[Number, ...]:
    return common(s, side, polygon_reach(s, row)) + local(s, side)


@formula
def inner(u: Number, v: Number, p: Any, row: Any, k: int) -> Number:
    """Return the fraction of the pixel on the inner side of the k-th edge."""
    return pixel_coverage(
        u * entry(row, 2 * EDGES + k) + v * entry(row, 3 * EDGES + k) - p[10] * entry(row, 4 * EDGES + k)
    )


@formula
def four(u: Number, v: Number, p: Any, row: Any, k: int) -> Number:
    """Return the product over four edges; unrolled, because compilers optimize short inner loops poorly."""
    first, second = inner(u, v, p, row, k) * inner(u, v, p, row, k + 1), inner(u, v, p, row, k + 2)
    return first * second * inner(u, v, p, row, k + 3)


@formula
def polygon_shade(x: Number, y: Number, p: Any, row: Any) -> tuple[Number, Number, Any]:
    """Return cover, factor and highlight; cover is the product over all edges of `inner`."""
    u, v = x * p[8] + y * p[9], y * p[8] - x * p[9]
    cover = four(u, v, p, row, 0) * four(u, v, p, row, 4) * inner(u, v, p, row, 8)
    return clip_to_box(cover, x, y, p), p[7], ZERO


@formula
def quadrangle_shade(x: Number, y: Number, p: Any, row: Any) -> tuple[Number, Number, Any]:
    """Return the same as `polygon_shade` for polygons of up to four edges, twice as fast."""
    u, v = x * p[8] + y * p[9], y * p[8] - x * p[9]
    return clip_to_box(four(u, v, p, row, 0), x, y, p), p[7], ZERO


@formula
def star_prepare(s: Any, side: int, row: Any) -> tuple[Number, ...]:
    return common(s, side, star_reach(s, row)) + local(s, side)


@formula
def sector(u: Number, v: Number) -> Number:
    """Return the index among `SECTORS` sectors of equal diamond angle, v / (|u| + |v|) continued around the circle."""
    t = v / clamp_min(absolute(u) + absolute(v), TINY)
    t = where(u < ZERO, TWO - t, where(v < ZERO, FOUR + t, t))
    return truncate(t * QUARTER)


@formula
def star_locate(x: Number, y: Number, p: Any) -> Number:
    """Return the sector that the pixel lies in."""
    k = sector(x * p[8] + y * p[9], y * p[8] - x * p[9])
    return where(k < ALL, k, ZERO)


@formula
def star_shade(x: Number, y: Number, p: Any, chord: Any) -> tuple[Number, Number, Any]:
    """Return cover, factor and highlight from the chord of the pixel's sector."""
    u, v = x * p[8] + y * p[9], y * p[8] - x * p[9]
    distance = u * chord[0] + v * chord[1] - p[10] * chord[2]
    return clip_to_box(pixel_coverage(distance), x, y, p), p[7], ZERO
