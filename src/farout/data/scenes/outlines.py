"""Tables of outlines of unit size: x, then y of all vertices, then outward normal and offset of each edge.

Outlines depend on no continuous attribute of a scene, so they need no gradients and are computed on the CPU.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farout.data.scenes.columns import ASPECT, KIND, POINTS, RADII, SMOOTHNESS
from farout.data.scenes.ops import formula
from farout.data.scenes.scene import KINDS

Floats = NDArray[np.float64]

EDGES = 9
"""Maximum number of edges of a polygon."""
SECTORS = 256
"""Number of edges that approximate a smooth outline."""
FAR = 1e3
"""Offset of unused edges."""
TEMPLATES = {
    "square": [(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)],
    "eq_triangle": [(0, 2 / 3), (-0.5, -1 / 3), (0.5, -1 / 3)],
    **{
        f"rp{n}": [(-math.sin(2 * math.pi * k / n) / 2, math.cos(2 * math.pi * k / n) / 2) for k in range(n)]
        for n in (6, 7, 8, 9)
    },
}
"""Vertices, counter-clockwise."""
RECTANGLE, EQUILATERAL, ISOSCELES = (KINDS.index(k) for k in ("rectangle", "eq_triangle", "is_triangle"))


def _templates() -> tuple[NDArray[np.int64], Floats]:
    """Return the number of vertices of each kind, and the vertices."""
    numbers, vertices = np.zeros(len(KINDS), np.int64), np.zeros((len(KINDS), EDGES, 2))
    kinds = {**TEMPLATES, "rectangle": TEMPLATES["square"], "is_triangle": TEMPLATES["eq_triangle"]}
    for kind, points in kinds.items():
        numbers[KINDS.index(kind)] = len(points)
        vertices[KINDS.index(kind), : len(points)] = points
    return numbers, vertices


NUMBERS, VERTICES = _templates()


@formula
def edge(row: Any, k: int, n: int, room: int, points: Any) -> None:
    """Write the k-th of n edges and its first vertex."""
    after = (k + 1) % n
    x, y, next_x, next_y = points[k, 0], points[k, 1], points[after, 0], points[after, 1]
    length = math.sqrt((next_x - x) * (next_x - x) + (next_y - y) * (next_y - y))
    normal_x, normal_y = (next_y - y) / length, (x - next_x) / length
    row[k], row[room + k] = x, y
    row[2 * room + k], row[3 * room + k], row[4 * room + k] = normal_x, normal_y, normal_x * x + normal_y * y


@formula
def polygon_outline(s: Any, row: Any) -> None:
    """Write the outline of a polygon; the aspect of a triangle is the ratio of its base to its side."""
    kind = int(s[KIND])
    n = NUMBERS[kind]
    aspect = s[ASPECT] if kind in (RECTANGLE, ISOSCELES) else 1.0
    wide, high = 1.0, 1.0
    if kind == RECTANGLE:
        high = aspect
    if kind in (EQUILATERAL, ISOSCELES):
        wide, high = aspect, math.sqrt(1.0 - aspect * aspect / 4.0)
    points = np.empty((EDGES, 2))
    for k in range(n):
        points[k, 0], points[k, 1] = VERTICES[kind, k, 0] * wide, VERTICES[kind, k, 1] * high
    row[4 * EDGES :] = FAR
    for k in range(n):
        edge(row, k, n, EDGES, points)


@formula
def star_outline(s: Any, row: Any) -> None:
    """Write the outline through points at equal angles, a cardinal spline evaluated in `SECTORS` directions."""
    n, slack = int(s[POINTS]), s[SMOOTHNESS] / 200.0
    controls = np.empty((n, 2))
    for i in range(n):
        angle = 2.0 * math.pi * i / n
        controls[i, 0] = s[RADII + i] * math.cos(angle) / 2.0
        controls[i, 1] = s[RADII + i] * math.sin(angle) / 2.0
    points = np.empty((SECTORS, 2))
    across, along = np.empty((4, SECTORS)), np.empty((4, SECTORS))
    for k in range(SECTORS):
        curve(controls, slack, k, across, along)
    places = root(across)
    for k in range(SECTORS):
        t = places[k]
        radius = along[0, k] + t * (along[1, k] + t * (along[2, k] + t * along[3, k]))
        points[k, 0], points[k, 1] = DIRECTIONS[k, 0] * radius, DIRECTIONS[k, 1] * radius
    for k in range(SECTORS):
        edge(row, k, SECTORS, SECTORS, points)


@formula
def curve(controls: Floats, slack: float, k: int, across: Floats, along: Floats) -> None:
    """Write the spline segment in the k-th direction as cubics across that direction and along it."""
    n, x, y = len(controls), DIRECTIONS[k, 0], DIRECTIONS[k, 1]
    i = int(ANGLES[k] * n)
    (p, q), (p_next, q_next) = project(controls[i], x, y), project(controls[(i + 1) % n], x, y)
    (p_last, q_last), (p_after, q_after) = project(controls[i - 1], x, y), project(controls[(i + 2) % n], x, y)
    across[0, k], across[1, k], across[2, k], across[3, k] = cubic(
        p, p_next, slack * (p_next - p_last), slack * (p_after - p)
    )
    along[0, k], along[1, k], along[2, k], along[3, k] = cubic(
        q, q_next, slack * (q_next - q_last), slack * (q_after - q)
    )


@formula
def root(across: Floats) -> Floats:
    """Return the root in 0..1 of each decreasing cubic by bisection; vectorized over cubics, several times faster."""
    low, step = np.zeros(SECTORS), 0.5
    for _ in range(24):
        for k in range(SECTORS):
            t = low[k] + step
            above = across[0, k] + t * (across[1, k] + t * (across[2, k] + t * across[3, k])) > 0.0
            low[k] = t if above else low[k]
        step = step / 2.0
    return low


@formula
def project(point: Floats, x: float, y: float) -> tuple[float, float]:
    """Return the coordinates of a point across the direction (x, y), and along it."""
    return point[0] * y - point[1] * x, point[0] * x + point[1] * y


@formula
def cubic(start: float, end: float, leaving: float, arriving: float) -> tuple[float, float, float, float]:
    """Return the coefficients of the cubic with these end values and slopes, constant first."""
    return start, leaving, 3.0 * (end - start) - 2.0 * leaving - arriving, 2.0 * (start - end) + leaving + arriving


def _directions() -> tuple[Floats, Floats]:
    """Return unit vectors at equal diamond angles, and their angles as fractions of a turn."""
    t = 4.0 * np.arange(SECTORS) / SECTORS
    x, y = np.abs(t - 2) - 1, 1 - np.abs(t - 1)
    y = np.where(t > 2, np.abs(t - 3) - 1, y)
    directions = np.stack([x, y], 1) / np.hypot(x, y)[:, None]
    return directions, np.arctan2(y, x) / (2 * math.pi) % 1.0


DIRECTIONS, ANGLES = _directions()
