"""SHAPES drawn with Pillow: polygons at four times the side, then reduced."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from PIL import Image, ImageDraw

from benchmarks.scenes_geometry import GREY, POLYGONS, Batch, Bytes, Floats, batch, regular, smooth_outline
from benchmarks.scenes_gradients import STOPS, Turned, balls, boxes, cones, cylinders, faces
from farout.data.scenes.scene import Scenes

FINER = 4
CIRCLE = 2 * regular(48)
Painted = tuple[Floats, Floats]
"""Polygons about the figure's center, [P, N, 2], in the order they are painted; and their colors in 0..1, [P, 3]."""


class Pillow:
    """An image at a time on one large canvas."""

    def __init__(self, side: int) -> None:
        self.side = side
        self.canvas = Image.new("RGB", (side * FINER, side * FINER))
        self.pen = ImageDraw.Draw(self.canvas)

    def __call__(self, scenes: Scenes) -> Bytes:
        """Images [B, side, side, 3]."""
        b = batch(scenes)
        images = np.empty((len(b.kinds), self.side, self.side, 3), np.uint8)
        for kind, places in b.places().items():
            for image, painted in zip(places, PAINTERS[kind](b[places]), strict=True):
                images[image] = self._draw(painted, b.position[image])
        return images

    def _draw(self, painted: Painted, position: Floats) -> Image.Image:
        corners, colors = painted
        pixels = ((corners + position) * np.array([1, -1]) + 0.5) * (self.side * FINER) - 0.5
        self.pen.rectangle((0, 0, *self.canvas.size), (GREY, GREY, GREY))
        for polygon, color in zip(pixels.tolist(), np.rint(colors * 255).astype(int).tolist(), strict=True):
            self.pen.polygon([tuple(point) for point in polygon], tuple(color))
        return self.canvas.reduce(FINER)


def paint_flat(b: Batch) -> Iterator[Painted]:
    colors = b.color * b.strengths[:, :1]
    for image, kind in enumerate(b.kinds):
        corners = smooth_outline(b, image, 16) if kind == "random" else POLYGONS.get(kind, CIRCLE / 2)
        yield (corners @ b.model[image, :2, :2].T)[None], colors[image : image + 1]


def paint_balls(b: Batch) -> Iterator[Painted]:
    """Circles that shrink towards the focus."""
    ball = balls(b)
    step = np.linspace(1, 0, STOPS, endpoint=False)[:, None, None]
    for image, frame in enumerate(ball.frame):
        circles = step * CIRCLE + (1 - step) * ball.focus[image]
        yield circles @ frame.T, ball.colors[image, :0:-1]


def paint_boxes(b: Batch) -> Iterator[Painted]:
    box = boxes(b)
    yield from zip(faces(box), box.colors, strict=True)


def paint_cylinders(b: Batch) -> Iterator[Painted]:
    """Strips along the axis, then the end."""
    turned = cylinders(b)
    for image, shift in enumerate(turned.shift):
        rim = lower_rim()
        strips = np.stack([rim[:-1] - (0, shift), rim[1:] - (0, shift), rim[1:] + (0, shift), rim[:-1] + (0, shift)], 1)
        yield from finished(turned, image, strips, (0, shift))


def paint_cones(b: Batch) -> Iterator[Painted]:
    """The base's silhouette, then strips from its rim to the apex; over them the base where it is seen."""
    turned = cones(b)
    for image, shift in enumerate(turned.shift):
        rim = tangent_rim(shift)
        apex = np.broadcast_to((0.0, shift), rim[1:].shape)
        strips = np.stack([rim[:-1] - (0, shift), rim[1:] - (0, shift), apex, apex], 1)
        yield from finished(turned, image, strips, (0, -shift))


def lower_rim() -> Floats:
    """The front half of the unit circle at the gradient's stops, [S, 2]."""
    across = np.linspace(-1, 1, STOPS)
    return np.stack([across, -np.sqrt(1 - across**2)], 1)


def tangent_rim(shift: float) -> Floats:
    """The part of the unit circle that lies below the tangents from an apex, [S, 2]; all of it where there are none."""
    touch = np.arcsin(min(1.0, 0.5 / shift))
    angle = np.linspace(np.pi - touch, 2 * np.pi + touch, STOPS)
    return np.stack([np.cos(angle), np.sin(angle)], 1)


def finished(turned: Turned, image: int, strips: Floats, end: tuple[float, float]) -> Iterator[Painted]:
    """Strips in the colors between stops, and the flat end; each polygon with as many corners as a circle."""
    colors = (turned.colors[image, :-1] + turned.colors[image, 1:]) / 2
    polygons = np.concatenate([strips, np.repeat(strips[:, -1:], len(CIRCLE) - 4, 1)], 1)
    if turned.end_seen[image]:
        polygons, colors = np.concatenate([polygons, (CIRCLE + end)[None]]), np.vstack([colors, turned.end[image]])
    yield polygons @ turned.frame[image].T, colors


PAINTERS = {
    **dict.fromkeys((*POLYGONS, "circle", "ellipse", "random"), paint_flat),
    **dict.fromkeys(("sphere_3d", "ellipsoid_3d"), paint_balls),
    **dict.fromkeys(("cube_3d", "cuboid_3d"), paint_boxes),
    "cylinder_3d": paint_cylinders,
    "cone_3d": paint_cones,
}
