"""Ellipses, polygons and smooth random outlines, turned about z.

Each figure has `reach`, how far it extends from its center as shares of the side; `prepare`, the numbers that are the
same for all pixels; and `shade`, which gives cover, factor of the color and highlight at a pixel. Where every pixel
looks into a table at a place of its own, `locate` gives that place, and `shade` takes what was found there.
"""

from __future__ import annotations

from typing import Any

from farout.data.scenes.columns import ASPECT, KIND, SIZE, TURN_Z
from farout.data.scenes.geometry import boxed, covered, ellipse_distance, turn
from farout.data.scenes.lighting import common
from farout.data.scenes.ops import (
    TINY,
    TWO,
    ZERO,
    Number,
    absolute,
    at_least,
    constant,
    entry,
    formula,
    single,
    sqrt,
    support,
    where,
    whole,
)
from farout.data.scenes.outlines import EDGES, SECTORS
from farout.data.scenes.scene import KINDS

ELLIPSE = KINDS.index("ellipse")
QUARTER, ALL, FOUR = constant(SECTORS / 4), constant(SECTORS), constant(4)
CHORD = (2 * SECTORS, 3 * SECTORS, 4 * SECTORS)
"""Where the table has the normals and offsets of a smooth outline."""


@formula
def ellipse_axes(s: Any) -> tuple[Number, Number, Number, Number]:
    """Half axes and the direction of the first."""
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
    form = single(p * c * c + q * d * d), single((p - q) * c * d), single(p * d * d + q * c * c)
    return common(s, side, ellipse_reach(s, row)) + form


@formula
def ellipse_shade(x: Number, y: Number, p: Any, row: Any) -> tuple[Number, Number, Any]:
    return boxed(covered(ellipse_distance(x, y, p[8], p[9], p[10])), x, y, p), p[7], ZERO


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
    """Cosine and sine of the rotation, and the size in pixels."""
    c, d = turn(s[TURN_Z])
    return single(c), single(d), single(s[SIZE] * side)


@formula
def polygon_prepare(s: Any, side: int, row: Any) -> tuple[Number, ...]:
    return common(s, side, polygon_reach(s, row)) + local(s, side)


@formula
def inner(u: Number, v: Number, p: Any, row: Any, k: int) -> Number:
    """Share on the inner side of the k-th edge."""
    return covered(u * entry(row, 2 * EDGES + k) + v * entry(row, 3 * EDGES + k) - p[10] * entry(row, 4 * EDGES + k))


@formula
def four(u: Number, v: Number, p: Any, row: Any, k: int) -> Number:
    """Of four edges; written out, for compilers make little of short loops within loops."""
    first, second = inner(u, v, p, row, k) * inner(u, v, p, row, k + 1), inner(u, v, p, row, k + 2)
    return first * second * inner(u, v, p, row, k + 3)


@formula
def polygon_shade(x: Number, y: Number, p: Any, row: Any) -> tuple[Number, Number, Any]:
    """The product of the shares on the inner side of every edge."""
    u, v = x * p[8] + y * p[9], y * p[8] - x * p[9]
    cover = four(u, v, p, row, 0) * four(u, v, p, row, 4) * inner(u, v, p, row, 8)
    return boxed(cover, x, y, p), p[7], ZERO


@formula
def quadrangle_shade(x: Number, y: Number, p: Any, row: Any) -> tuple[Number, Number, Any]:
    """For polygons of up to four edges: twice as fast."""
    u, v = x * p[8] + y * p[9], y * p[8] - x * p[9]
    return boxed(four(u, v, p, row, 0), x, y, p), p[7], ZERO


@formula
def star_prepare(s: Any, side: int, row: Any) -> tuple[Number, ...]:
    return common(s, side, star_reach(s, row)) + local(s, side)


@formula
def sector(u: Number, v: Number) -> Number:
    """Of `SECTORS` sectors of equal diamond angle, v / (|u| + |v|) continued around the circle."""
    t = v / at_least(absolute(u) + absolute(v), TINY)
    t = where(u < ZERO, TWO - t, where(v < ZERO, FOUR + t, t))
    return whole(t * QUARTER)


@formula
def star_locate(x: Number, y: Number, p: Any) -> Number:
    """The sector that the pixel lies in."""
    k = sector(x * p[8] + y * p[9], y * p[8] - x * p[9])
    return where(k < ALL, k, ZERO)


@formula
def star_shade(x: Number, y: Number, p: Any, chord: Any) -> tuple[Number, Number, Any]:
    """By the chord of that sector."""
    u, v = x * p[8] + y * p[9], y * p[8] - x * p[9]
    distance = u * chord[0] + v * chord[1] - p[10] * chord[2]
    return boxed(covered(distance), x, y, p), p[7], ZERO
