"""Code shared by the peer renderers: a batch of scenes as arrays, unit outlines, meshes of solids, and light."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from farout.data.scenes.scene import FLAT, KINDS, MOST_POINTS, Scenes

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]
Value = TypeVar("Value")

GRAY = 155
STEPS = 16
"""Straight pieces that stand for a cubic one."""
TRIANGLES = ("eq_triangle", "is_triangle")
TRIANGLE_NUMBERS = [KINDS.index(kind) for kind in TRIANGLES]
LIGHT = np.array([0.8, 0.8, 1.0]) / math.hypot(0.8, 1.0)
"""Length of the light's direction within the image plane (twice) and toward the viewer."""


class Batch(NamedTuple):
    """Scenes as arrays; x to the right, y upwards, z toward the viewer, lengths in fractions of the side."""

    kinds: list[str]
    axes: Floats
    """Columns are the figure's own axes after its rotation, [B, 3, 3]."""
    extents: Floats
    """Along these axes, [B, 3]."""
    position: Floats
    color: Floats
    strengths: Floats
    """Ambient, diffuse and specular, times the intensity, [B, 3]."""
    light: Floats
    """Direction toward the light, [B, 3]."""
    points: NDArray[np.int64]
    smoothness: Floats
    radii: Floats

    @property
    def model(self) -> Floats:
        """Maps a figure of unit size to its place in the image, [B, 3, 3]."""
        return self.axes * self.extents[:, None]

    def groups(self, values: Mapping[str, Value]) -> Iterator[tuple[Value, NDArray[np.int64]]]:
        """The values that these kinds have, each with the places of its scenes in the batch."""
        found: dict[Value, list[int]] = {}
        for place, kind in enumerate(self.kinds):
            found.setdefault(values[kind], []).append(place)
        for value, places in found.items():
            yield value, np.array(places)

    def __getitem__(self, places: NDArray[np.int64]) -> Batch:  # type: ignore[override]
        return Batch([self.kinds[place] for place in places], *(values[places] for values in tuple(self)[1:]))


def batch(scenes: Scenes) -> Batch:
    """The arrays of these scenes."""
    columns = {name: value.numpy() for name, value in scenes.columns().items()}
    kinds, light, aspect = columns["kind"], columns["light"].astype(float), columns["aspect"].astype(float)
    extents = np.concatenate([np.ones((len(kinds), 1)), aspect], 1)
    triangle = np.isin(kinds, TRIANGLE_NUMBERS)
    extents[triangle, 0] = aspect[triangle, 0]
    extents[triangle, 1] = np.sqrt(1 - aspect[triangle, 0] ** 2 / 4)
    strengths = light[:, :1] * np.stack([light[:, 1], 1 - light[:, 1], light[:, 2]], 1)
    flat = kinds < len(FLAT)
    strengths[flat] = light[flat, :1] * np.array([1.0, 0.0, 0.0])
    angle = np.radians(light[:, 3])
    return Batch(
        kinds=[KINDS[kind] for kind in kinds],
        axes=rotation(columns["rotation"].astype(float)),
        extents=extents * columns["size"][:, None].astype(float),
        position=columns["position"].astype(float),
        color=color(columns["hue"].astype(float)),
        strengths=strengths,
        light=np.stack([np.cos(angle), np.sin(angle), np.ones(len(angle))], 1) * LIGHT,
        points=columns["points"],
        smoothness=columns["smoothness"].astype(float),
        radii=columns["radii"].astype(float),
    )


def rotation(degrees: Floats) -> Floats:
    """Matrices that turn about z, then y, then x, [B, 3, 3]."""
    (cx, cy, cz), (sx, sy, sz) = np.cos(np.radians(degrees)).T, np.sin(np.radians(degrees)).T
    first = [cy * cz, -cy * sz, sy]
    second = [cx * sz + sx * sy * cz, cx * cz - sx * sy * sz, -sx * cy]
    third = [sx * sz - cx * sy * cz, sx * cz + cx * sy * sz, cx * cy]
    return np.array([first, second, third]).transpose(2, 0, 1)


def color(hue: Floats) -> Floats:
    """HSV to RGB at full saturation and value, [B, 3]."""
    distance = np.abs((hue[:, None] / 60 - np.array([0, 2, 4]) + 3) % 6 - 3)
    return np.clip(2 - distance, 0, 1)


def phong(normals: Floats, b: Batch) -> Floats:
    """Colors of surfaces with these normals, [B, S, 3]."""
    facing = np.einsum("bsi,bi->bs", normals, b.light)
    glint = np.maximum(2 * facing * normals[..., 2] - b.light[:, 2:], 0) ** 32
    factor = b.strengths[:, :1] + b.strengths[:, 1:2] * np.maximum(facing, 0)
    return np.minimum(b.color[:, None] * factor[..., None] + (b.strengths[:, 2:] * glint)[..., None], 1)


def regular(corners: int) -> Floats:
    """Corners of a regular polygon of diameter 1, counter-clockwise, the first on top, [N, 2]."""
    angle = 2 * math.pi * np.arange(corners) / corners
    return np.stack([-np.sin(angle), np.cos(angle)], 1) / 2


SQUARE = np.array([(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)])
TRIANGLE = np.array([(0, 2 / 3), (-0.5, -1 / 3), (0.5, -1 / 3)])
POLYGONS = {
    **{f"rp{corners}": regular(corners) for corners in (6, 7, 8, 9)},
    **dict.fromkeys(("square", "rectangle"), SQUARE),
    **dict.fromkeys(TRIANGLES, TRIANGLE),
}


class Curves(NamedTuple):
    """The cubic pieces of random outlines: ends and tangents there, [B, MOST_POINTS, 2]; `Batch.points` are in use."""

    start: Floats
    leaving: Floats
    end: Floats
    arriving: Floats


def curves(b: Batch) -> Curves:
    """Points at equal angles, joined by a cardinal spline."""
    number, count = np.arange(MOST_POINTS), b.points[:, None]
    angle = 2 * math.pi * number / count
    points = np.stack([np.cos(angle), np.sin(angle)], 2) * (b.radii[..., None] / 2)
    after, before = (((number + step) % count)[..., None] for step in (1, -1))
    following = np.take_along_axis(points, after, 1)
    tangents = (following - np.take_along_axis(points, before, 1)) * (b.smoothness[:, None, None] / 200)
    return Curves(points, tangents, following, np.take_along_axis(tangents, after, 1))


T = np.arange(STEPS)[:, None] / STEPS
HERMITE = 2 * T**3 - 3 * T**2 + 1, T**3 - 2 * T**2 + T, 3 * T**2 - 2 * T**3, T**3 - T**2
"""The four cubic Hermite polynomials at equal steps."""


def smooth_outlines(b: Batch) -> list[Floats]:
    """Random outlines as polygons with `STEPS` corners per point, [N, 2] each."""
    pieces = sum(weight * part[:, :, None] for weight, part in zip(HERMITE, curves(b), strict=True))
    return [piece[:count].reshape(-1, 2) for piece, count in zip(pieces, b.points, strict=True)]


class Mesh(NamedTuple):
    """Triangles, counter-clockwise from outside."""

    vertices: Floats
    normals: Floats
    triangles: NDArray[np.int32]


def revolved(profile: list[tuple[float, float, float, float]], segments: int) -> Mesh:
    """A profile turned about y: radius and height of its points, and the normal there."""
    angle = 2 * math.pi * np.arange(segments + 1) / segments
    cosine, sine, rows = np.cos(angle), np.sin(angle), np.array(profile)[:, :, None]
    heights = np.broadcast_to(rows[:, 1], (len(profile), segments + 1))
    vertices = np.stack([rows[:, 0] * cosine, heights, rows[:, 0] * sine], 2).reshape(-1, 3)
    normals = np.stack([rows[:, 2] * cosine, 0 * heights + rows[:, 3], rows[:, 2] * sine], 2).reshape(-1, 3)
    corner = np.arange(len(profile) * (segments + 1)).reshape(len(profile), -1)
    a, c, d, e = (part.ravel() for part in (corner[:-1, :-1], corner[:-1, 1:], corner[1:, 1:], corner[1:, :-1]))
    return oriented(vertices, normals, np.concatenate([np.stack([a, c, d], 1), np.stack([a, d, e], 1)]))


def oriented(vertices: Floats, normals: Floats, triangles: NDArray[np.int64]) -> Mesh:
    """Without triangles that have no area, and with all others turned outwards."""
    first, second, third = vertices[triangles].transpose(1, 0, 2)
    across = np.cross(second - first, third - first)
    inwards = (across * normals[triangles].sum(1)).sum(1) < 0
    triangles = np.where(inwards[:, None], triangles[:, ::-1], triangles)
    return Mesh(vertices, normals, triangles[np.linalg.norm(across, axis=1) > 1e-9].astype(np.int32))


def sphere(rings: int, segments: int) -> Mesh:
    """A sphere of diameter 1."""
    angle = np.pi * np.arange(rings + 1) / rings
    return revolved([(math.sin(a) / 2, math.cos(a) / 2, math.sin(a), math.cos(a)) for a in angle], segments)


def cylinder(segments: int) -> Mesh:
    """A cylinder of diameter and height 1."""
    side, end = [(0.5, -0.5, 1.0, 0.0), (0.5, 0.5, 1.0, 0.0)], [(0.5, 0.5, 0.0, 1.0), (0.0, 0.5, 0.0, 1.0)]
    return revolved([(0.0, -0.5, 0.0, -1.0), (0.5, -0.5, 0.0, -1.0), *side, *end], segments)


STEEP, LEVEL = 2 / math.sqrt(5), 1 / math.sqrt(5)
"""Of the normal of a cone as high as wide: across its axis, and along it."""


def cone(segments: int) -> Mesh:
    """A cone of diameter and height 1."""
    side = [(0.5, -0.5, STEEP, LEVEL), (0.0, 0.5, STEEP, LEVEL)]
    return revolved([(0.0, -0.5, 0.0, -1.0), (0.5, -0.5, 0.0, -1.0), *side], segments)


def cube() -> Mesh:
    """A cube of side 1."""
    corners, normals = [], []
    for axis in range(3):
        for sign in (-1.0, 1.0):
            face = np.insert(SQUARE, axis, sign / 2, axis=1)
            corners.append(face)
            normals.append(np.tile(np.eye(3)[axis] * sign, (4, 1)))
    quads = np.arange(24).reshape(6, 4)
    triangles = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
    return oriented(np.concatenate(corners), np.concatenate(normals), triangles)
