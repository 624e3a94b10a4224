"""Ellipsoids and cuboids in parallel projection along z. See `flat` for the functions of a figure."""

from __future__ import annotations

from typing import Any

from farout.data.scenes.columns import ASPECT, ASPECT_2, KIND, SIZE
from farout.data.scenes.geometry import clip_to_box, direction, ellipse_distance, pixel_coverage, rotation
from farout.data.scenes.lighting import common, light, phong
from farout.data.scenes.ops import (
    HALF,
    ONE,
    TINY,
    Number,
    absolute,
    as_float32,
    clamp_min,
    clamp_unit,
    formula,
    maximum,
    sqrt,
    where,
)
from farout.data.scenes.scene import KINDS

ELLIPSOID, CUBOID = KINDS.index("ellipsoid_3d"), KINDS.index("cuboid_3d")


@formula
def half_axes(s: Any) -> tuple[tuple[Number, ...], tuple[Number, ...], tuple[Number, ...], tuple[Number, ...]]:
    """Return half extents along the axes of the solid, and these axes."""
    first, second, third = rotation(s)
    unequal = (s[KIND] == ELLIPSOID) | (s[KIND] == CUBOID)
    a = s[SIZE] * 0.5
    b, c = a * where(unequal, s[ASPECT], 1.0), a * where(unequal, s[ASPECT_2], 1.0)
    return (a, b, c), first, second, third


@formula
def square_sum(x: Number, y: Number, z: Number) -> Number:
    return x * x + y * y + z * z


@formula
def ellipsoid_reach(s: Any, row: Any) -> tuple[Number, Number]:
    (a, b, c), e, f, g = half_axes(s)
    return sqrt(square_sum(a * e[0], b * f[0], c * g[0])), sqrt(square_sum(a * e[1], b * f[1], c * g[1]))


@formula
def ellipsoid_prepare(s: Any, side: int, row: Any) -> tuple[Number, ...]:
    """Return entries of Q of the quadric x·Q·x = 1, and of its silhouette after z is eliminated."""
    (a, b, c), e, f, g = half_axes(s)
    p, q, r = a * side, b * side, c * side
    e0, e1, e2 = e[0] / p, e[1] / p, e[2] / p
    f0, f1, f2 = f[0] / q, f[1] / q, f[2] / q
    g0, g1, g2 = g[0] / r, g[1] / r, g[2] / r
    xx, yy, zz = square_sum(e0, f0, g0), square_sum(e1, f1, g1), square_sum(e2, f2, g2)
    xy, xz, yz = e0 * e1 + f0 * f1 + g0 * g1, e0 * e2 + f0 * f2 + g0 * g2, e1 * e2 + f1 * f2 + g1 * g2
    quadric = as_float32(xx), as_float32(xy), as_float32(xz), as_float32(yy), as_float32(yz), as_float32(zz)
    silhouette = as_float32(xx - xz * xz / zz), as_float32(xy - xz * yz / zz), as_float32(yy - yz * yz / zz)
    front = as_float32(-xz / zz), as_float32(-yz / zz), as_float32(1.0 / sqrt(zz))
    return common(s, side, ellipsoid_reach(s, row)) + light(s, 1.0, 0.0) + quadric + silhouette + front


@formula
def ellipsoid_shade(x: Number, y: Number, p: Any, row: Any) -> tuple[Number, Number, Number]:
    """Return cover, factor and highlight; the normal at the front point is Q·(x, y, z)."""
    cover = clip_to_box(pixel_coverage(ellipse_distance(x, y, p[19], p[20], p[21])), x, y, p)
    inside = ONE - (p[19] * x * x + (p[20] + p[20]) * x * y + p[21] * y * y)
    z = p[22] * x + p[23] * y + p[24] * sqrt(clamp_min(inside, TINY))
    nx, ny, nz = p[13] * x + p[14] * y + p[15] * z, p[14] * x + p[16] * y + p[17] * z, p[15] * x + p[17] * y + p[18] * z
    length = sqrt(clamp_min(square_sum(nx, ny, nz), TINY * TINY))
    factor, highlight = phong(nx / length, ny / length, nz / length, p)
    return cover, factor, highlight


@formula
def cuboid_reach(s: Any, row: Any) -> tuple[Number, Number]:
    (a, b, c), e, f, g = half_axes(s)
    return (
        a * absolute(e[0]) + b * absolute(f[0]) + c * absolute(g[0]),
        a * absolute(e[1]) + b * absolute(f[1]) + c * absolute(g[1]),
    )


@formula
def face_viewer(axis: tuple[Number, ...]) -> tuple[Number, Number, Number]:
    """Return the axis or its opposite, whichever points toward the viewer."""
    sign = where(axis[2] < 0.0, -1.0, 1.0)
    return axis[0] * sign, axis[1] * sign, axis[2] * sign


@formula
def strip(e: Any, f: Any, g: Any, a: Number, b: Number, c: Number) -> tuple[Number, ...]:
    """Return normal and half width (spanned by f and g) of the strip between the two silhouette edges along e."""
    length, x, y = direction(e[0], e[1])
    width = b * absolute(f[0] * y - f[1] * x) + c * absolute(g[0] * y - g[1] * x)
    return as_float32(y), as_float32(-x), as_float32(where(length > 1e-6, width, a + b + c))


@formula
def crease(e: Any, f: Any, a: Number, b: Number) -> tuple[Number, ...]:
    """Return the line where the front faces of e and f meet, positive on the side of e's face."""
    length = sqrt(where(e[2] * e[2] + f[2] * f[2] > 1e-12, e[2] * e[2] + f[2] * f[2], 1e-12))
    p, q = e[2] / length, f[2] / length
    return as_float32(e[0] * q - f[0] * p), as_float32(e[1] * q - f[1] * p), as_float32(b * p - a * q)


@formula
def cuboid_prepare(s: Any, side: int, row: Any) -> tuple[Number, ...]:
    (a, b, c), first, second, third = half_axes(s)
    e, f, g = face_viewer(first), face_viewer(second), face_viewer(third)
    a, b, c = a * side, b * side, c * side
    strips = strip(e, f, g, a, b, c) + strip(f, g, e, b, c, a) + strip(g, e, f, c, a, b)
    creases = crease(e, f, a, b) + crease(f, g, b, c) + crease(g, e, c, a)
    p = common(s, side, cuboid_reach(s, row)) + light(s, 1.0, 0.0)
    faces = phong(as_float32(e[0]), as_float32(e[1]), as_float32(e[2]), p) + phong(
        as_float32(f[0]), as_float32(f[1]), as_float32(f[2]), p
    )
    return p + strips + creases + faces + phong(as_float32(g[0]), as_float32(g[1]), as_float32(g[2]), p)


@formula
def cuboid_shade(x: Number, y: Number, p: Any, row: Any) -> tuple[Number, Number, Number]:
    """Return cover, factor and highlight; adjacent faces are blended over one pixel."""
    distance = absolute(x * p[13] + y * p[14]) - p[15]
    distance = maximum(distance, absolute(x * p[16] + y * p[17]) - p[18])
    distance = maximum(distance, absolute(x * p[19] + y * p[20]) - p[21])
    ef = clamp_unit(HALF + (x * p[22] + y * p[23] + p[24]))
    fg = clamp_unit(HALF + (x * p[25] + y * p[26] + p[27]))
    ge = clamp_unit(HALF + (x * p[28] + y * p[29] + p[30]))
    first, second, third = ef * (ONE - ge), fg * (ONE - ef), ge * (ONE - fg)
    total = clamp_min(first + second + third, TINY)
    factor = (first * p[31] + second * p[33] + third * p[35]) / total
    highlight = (first * p[32] + second * p[34] + third * p[36]) / total
    return clip_to_box(pixel_coverage(distance), x, y, p), factor, highlight
