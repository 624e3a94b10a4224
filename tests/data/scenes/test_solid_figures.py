"""Solids: silhouettes against hulls of projected points and closed-form areas, shading against a ray marcher."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from matplotlib.path import Path as Outline
from numpy.typing import NDArray
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation
from some_scenes import cover, samples, scene, shares

from farout.data.scenes.renderer import draw

Floats = NDArray[np.float64]

SIDE, SIZE = 32, 0.5
TURNS = [(0, 0, 0), (30, -50, 20), (-60, 40, 10), (90, 0, 0), (-90, 0, 30), (0, 90, 45), (170, 20, -100), (60, 0, 0)]
FORMS: dict[str, tuple[float, float]] = {
    "sphere_3d": (1, 1),
    "ellipsoid_3d": (0.4, 0.7),
    "cube_3d": (1, 1),
    "cuboid_3d": (0.5, 0.7),
    "cylinder_3d": (1, 1),
    "cone_3d": (1, 1),
}


def turned(turn: tuple[float, ...]) -> Floats:
    """About z first, then y, then x, by another library."""
    x, y, z = turn
    return Rotation.from_euler("zyx", [z, y, x], degrees=True).as_matrix()


def surface(kind: str) -> Floats:
    """Points whose convex hull is the solid, [N, 3]."""
    a, b, c = SIZE / 2, SIZE / 2 * FORMS[kind][0], SIZE / 2 * FORMS[kind][1]
    angle = np.linspace(0, 2 * np.pi, 121)[:-1]
    top = np.array([0, a, 0])
    rim = np.stack([np.cos(angle), 0 * angle, np.sin(angle)], 1) * a
    if kind in ("cube_3d", "cuboid_3d"):
        return np.array([(i * a, j * b, k * c) for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)])
    if kind == "cylinder_3d":
        return np.concatenate([rim + top, rim - top])
    if kind == "cone_3d":
        return np.concatenate([rim - top, [top]])
    height = np.cos(np.linspace(0, np.pi, 61))[:, None, None]
    ring = np.stack([np.cos(angle), np.sin(angle)], 1)[None]
    ball = np.concatenate([np.broadcast_to(height, (61, 120, 1)), np.sqrt(1 - height**2) * ring], 2)
    return ball.reshape(-1, 3) * (a, b, c)


@pytest.mark.parametrize("turn", TURNS, ids=str)
@pytest.mark.parametrize("kind", FORMS)
def test_silhouette_is_the_hull_of_the_projection(kind: str, turn: tuple[float, ...]) -> None:
    drawn = cover(scene(kind, rotation=list(turn), position=[0.03, -0.02], aspect=list(FORMS[kind])), SIDE)
    points = (surface(kind) @ turned(turn).T)[:, :2] + (0.03, -0.02)
    x, y = samples(SIDE)
    outline = Outline(points[ConvexHull(points).vertices])
    reference = shares(outline.contains_points(np.column_stack([x.flat, y.flat])).reshape(x.shape), SIDE)
    edge = (reference > 0) & (reference < 1)
    assert np.abs(drawn - reference)[~edge].max() < 0.2
    assert np.abs(drawn - reference)[edge].mean() < 0.05
    assert drawn.sum() == pytest.approx(reference.sum(), rel=0.012)


def area(kind: str, turn: tuple[float, ...]) -> float:
    """Of the shadow cast along z."""
    a, b, c = SIZE, SIZE * FORMS[kind][0], SIZE * FORMS[kind][1]
    axes = turned(turn)[2]
    if kind == "sphere_3d":
        return math.pi * a * a / 4
    if kind == "ellipsoid_3d":
        return math.pi / 4 * math.hypot(b * c * axes[0], a * c * axes[1], a * b * axes[2])
    if kind in ("cube_3d", "cuboid_3d"):
        return abs(b * c * axes[0]) + abs(a * c * axes[1]) + abs(a * b * axes[2])
    slope, across = abs(axes[1]), math.sqrt(1 - axes[1] ** 2)
    if kind == "cylinder_3d":
        return math.pi / 4 * a * a * slope + a * a * across
    apex, r, short = a * across, a / 2, a / 2 * slope
    if apex <= short:
        return math.pi * r * short
    t = math.acos(short / apex)  # the tangent points stand at this angle from the axis
    return r * math.sqrt(apex**2 - short**2) + r * short * (math.pi - t)


@pytest.mark.parametrize("turn", TURNS, ids=str)
@pytest.mark.parametrize("kind", FORMS)
def test_area_of_the_silhouette(kind: str, turn: tuple[float, ...]) -> None:
    drawn = cover(scene(kind, rotation=list(turn), aspect=list(FORMS[kind])), 224).sum() / 224**2
    assert drawn == pytest.approx(area(kind, turn), rel=0.003)


def outside(kind: str, p: Floats) -> Floats:
    """Positive outside the solid, in its own axes; points are [..., 3]."""
    a, b, c = SIZE / 2, SIZE / 2 * FORMS[kind][0], SIZE / 2 * FORMS[kind][1]
    x, y, z = np.moveaxis(p, -1, 0)
    if kind in ("sphere_3d", "ellipsoid_3d"):
        return np.sqrt((x / a) ** 2 + (y / b) ** 2 + (z / c) ** 2) - 1
    if kind in ("cube_3d", "cuboid_3d"):
        return np.maximum(np.maximum(abs(x) - a, abs(y) - b), abs(z) - c)
    if kind == "cylinder_3d":
        return np.maximum(np.hypot(x, z) - a, abs(y) - a)
    return np.maximum(np.hypot(x, z) - (a - y) / 2, -a - y)


def marched(kind: str, turn: tuple[float, ...], side: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Normals of the first surface met by the rays through the pixels' centers, [side, side, 3], and which hit."""
    x, y = samples(side, 1)
    back = turned(turn)
    best, heights = np.full(x.shape, np.inf), np.linspace(0.6, -0.6, 400)
    high, low, found = np.full(x.shape, 0.6), np.full(x.shape, -0.6), np.zeros(x.shape, bool)
    for height in heights:
        value = outside(kind, np.stack([x, y, np.full_like(x, height)], -1) @ back)
        enters = ~found & (value < 0)
        low[enters], found = height, found | enters
        high[~found] = height
        best = np.minimum(best, value)
    for _ in range(40):
        middle = (low + high) / 2
        inside = outside(kind, np.stack([x, y, middle], -1) @ back) < 0
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    point = np.stack([x, y, high], -1) @ back
    steps = 1e-6 * np.eye(3)
    slope = np.stack([outside(kind, point + step) - outside(kind, point - step) for step in steps], -1) @ back.T
    return slope / np.linalg.norm(slope, axis=-1, keepdims=True), found


@pytest.mark.parametrize("turn", TURNS, ids=str)
@pytest.mark.parametrize("kind", FORMS)
def test_light_on_the_surface(kind: str, turn: tuple[float, ...]) -> None:
    side, intensity, ambient, specular, angle = 64, 0.8, 0.3, 0.25, 130
    settings: dict[str, Any] = {"rotation": list(turn), "light": [intensity, ambient, specular, angle]}
    drawn = draw(scene(kind, aspect=list(FORMS[kind]), **settings), side)[0, 0].double().numpy()
    normals, found = marched(kind, turn, side)
    light = np.array([0.8 * math.cos(math.radians(angle)), 0.8 * math.sin(math.radians(angle)), 1]) / math.hypot(0.8, 1)
    facing = normals @ light
    mirrored = 2 * facing * normals[..., 2] - light[2]
    expected = ambient + (1 - ambient) * np.maximum(facing, 0) + specular * np.maximum(mirrored, 0) ** 32
    around = np.stack([np.roll(found, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)]).all(0)
    near = np.stack([np.roll(normals, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)])
    plain = around & (np.linalg.norm(near - normals, axis=-1).max(0) < 0.3)  # away from edges
    assert plain.sum() > 0.35 * found.sum()
    np.testing.assert_allclose(drawn[plain], np.minimum(intensity * expected, 1)[plain], atol=2e-3)


def test_faces_blend_where_they_meet() -> None:
    image = draw(scene("cube_3d", size=0.5, rotation=[0, 45, 0], light=[1, 0.2, 0, 0]), 33)[0, 0, 16].numpy()
    left, right = image[10], image[22]
    assert right > left + 0.3
    assert image[16] == pytest.approx((left + right) / 2, abs=1e-3)  # the edge runs through the middle of this pixel
