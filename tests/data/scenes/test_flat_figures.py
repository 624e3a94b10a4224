"""Flat figures against point-in-figure tests on a 16 times finer grid, and against closed-form areas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from matplotlib.path import Path as Outline
from numpy.typing import NDArray
from scipy.interpolate import CubicHermiteSpline
from some_scenes import cover, samples, scene, shares

from farout.data.scenes.renderer import draw

SIDE = 32
RADII = [0.7, 1.3, 1.0, 0.8, 1.2, 1.3, 0.7, 1.1, 0.9, 1.25, 0.75, 1.0]


def ring(n: int, radius: float) -> NDArray[np.complex128]:
    """Corners of a regular polygon, one of them on top."""
    return 1j * radius * np.exp(2j * np.pi * np.arange(n) / n)


def box(width: float, height: float) -> NDArray[np.complex128]:
    return np.array([width + height * 1j, -width + height * 1j, -width - height * 1j, width - height * 1j]) / 2


def triangle(side: float, base: float) -> NDArray[np.complex128]:
    height = math.sqrt(side**2 - base**2 / 4)
    corners = np.array([1j * height, -base / 2, base / 2])
    return corners - corners.mean()


def smooth(points: int, smoothness: float, size: float) -> NDArray[np.complex128]:
    """A cardinal spline through points at equal angles, finely sampled."""
    controls = np.array(RADII[:points]) * size / 2 * np.exp(2j * np.pi * np.arange(points) / points)
    slopes = (np.roll(controls, -1) - np.roll(controls, 1)) * smoothness / 200
    closed, tangents = np.append(controls, controls[0]), np.append(slopes, slopes[0])
    return CubicHermiteSpline(np.arange(points + 1), closed, tangents)(np.linspace(0, points, points * 24))


FIGURES: list[tuple[str, dict[str, Any], Any]] = [
    ("circle", {}, ring(180, 0.25)),
    ("ellipse", {"aspect": [0.4, 1]}, ring(180, 0.25).real + 0.4j * ring(180, 0.25).imag),
    ("square", {}, box(0.5, 0.5)),
    ("rectangle", {"aspect": [0.45, 1]}, box(0.5, 0.225)),
    ("eq_triangle", {}, triangle(0.5, 0.5)),
    ("is_triangle", {"aspect": [0.5, 1]}, triangle(0.5, 0.25)),
    *[(f"rp{n}", {}, ring(n, 0.25)) for n in (6, 7, 8, 9)],
    *[
        ("random", {"points": n, "smoothness": s, "radii": RADII}, smooth(n, s, 0.5))
        for n, s in ((5, 30), (7, 100), (12, 80), (9, 0))
    ],
]


@pytest.mark.parametrize("turn", [0, 30, -130])
@pytest.mark.parametrize(("kind", "fields", "corners"), FIGURES, ids=lambda v: v if isinstance(v, str) else "")
def test_covers_what_lies_inside(kind: str, fields: dict[str, Any], corners: Any, turn: int) -> None:
    drawn = cover(scene(kind, rotation=[0, 0, turn], position=[0.05, -0.08], **fields), SIDE)
    placed = corners * np.exp(1j * np.radians(turn)) + 0.05 - 0.08j
    x, y = samples(SIDE)
    inside = Outline(np.column_stack([placed.real, placed.imag])).contains_points(np.column_stack([x.flat, y.flat]))
    reference = shares(inside.reshape(x.shape), SIDE)
    edge = (reference > 0) & (reference < 1)
    assert np.abs(drawn - reference)[~edge].max() < 0.15  # a sharp tip may touch the next pixel
    assert np.abs(drawn - reference)[edge].mean() < 0.04
    assert drawn.sum() == pytest.approx(reference.sum(), rel=0.018)


AREAS = {
    "circle": math.pi / 4,
    "ellipse": math.pi / 4 * 0.6,
    "square": 1.0,
    "rectangle": 0.6,
    "eq_triangle": math.sqrt(3) / 4,
    "is_triangle": 0.6 / 2 * math.sqrt(1 - 0.09),
    **{f"rp{n}": n / 8 * math.sin(2 * math.pi / n) for n in (6, 7, 8, 9)},
}


@pytest.mark.parametrize("kind", AREAS)
def test_area_in_closed_form(kind: str) -> None:
    area = cover(scene(kind, size=0.5, rotation=[0, 0, 17], aspect=[0.6, 1]), 224).sum() / 224**2
    assert area == pytest.approx(AREAS[kind] * 0.25, rel=0.002)


def test_kinds_without_an_aspect_ignore_it() -> None:
    for kind in ("circle", "square", "eq_triangle", "sphere_3d", "cube_3d"):
        assert draw(scene(kind, aspect=[0.5, 0.6]), 32).equal(draw(scene(kind), 32))


def test_flat_figures_turn_about_z_only() -> None:
    assert draw(scene("rp7", rotation=[40, -50, 20]), 32).equal(draw(scene("rp7", rotation=[0, 0, 20]), 32))


def test_a_straight_sided_outline_joins_its_points_by_lines() -> None:
    area = cover(scene("random", points=5, smoothness=0, radii=RADII, size=0.6), 224).sum() / 224**2
    first = np.array(RADII[:5]) * 0.3
    assert area == pytest.approx((first * np.roll(first, 1)).sum() / 2 * math.sin(math.radians(72)), rel=0.003)
