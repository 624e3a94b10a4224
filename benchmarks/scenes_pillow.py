"""SHAPES drawn with Pillow: polygons at four times the side, then reduced."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from PIL import Image, ImageDraw

from benchmarks.scenes_geometry import GRAY, POLYGONS, Batch, Bytes, Floats, batch, regular, smooth_outlines
from benchmarks.scenes_gradients import STOPS, Turned, balls, boxes, cones, cylinders, faces
from farout.data.scenes.scene import Scenes

FINER = 4
CIRCLE = 2 * regular(48)
ACROSS = np.linspace(-1, 1, STOPS)
HALF_CIRCLE = np.stack([ACROSS, -np.sqrt(1 - ACROSS**2)], 1)
"""The front half of a rim, at the stops of a gradient."""
FLIP = np.array([1, -1])
Painted = tuple[tuple[Floats, Floats], ...]
"""Polygons about the figure's center, [P, N, 2], and their colors in 0..1, [P, 3]; in the order they are painted."""


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
        for painter, places in b.groups(PAINTERS):
            for image, painted in zip(places, painter(b[places]), strict=True):
                images[image] = self._draw(painted, b.position[image])
        return images

    def _draw(self, painted: Painted, position: Floats) -> Image.Image:
        self.canvas.paste((GRAY, GRAY, GRAY), (0, 0, *self.canvas.size))
        for corners, colors in painted:
            pixels = ((corners + position) * FLIP + 0.5) * (self.side * FINER) - 0.5
            flat = pixels.reshape(len(corners), -1).tolist()
            for polygon, color in zip(flat, np.rint(colors * 255).astype(int).tolist(), strict=True):
                self.pen.polygon(polygon, tuple(color))
        return self.canvas.reduce(FINER)


def paint_flat(b: Batch) -> Iterator[Painted]:
    return painted_flat(b, [POLYGONS.get(kind, CIRCLE / 2) for kind in b.kinds])


def paint_outlines(b: Batch) -> Iterator[Painted]:
    return painted_flat(b, smooth_outlines(b))


def painted_flat(b: Batch, outlines: list[Floats]) -> Iterator[Painted]:
    colors, frames = b.color * b.strengths[:, :1], b.model[:, :2, :2].transpose(0, 2, 1)
    for image, corners in enumerate(outlines):
        yield (((corners @ frames[image])[None], colors[image : image + 1]),)


def paint_balls(b: Batch) -> Iterator[Painted]:
    """Circles that shrink, the parts outside the silhouette drawn in to it."""
    ball = balls(b)
    step = np.linspace(1, 0, STOPS, endpoint=False)[:, None, None]
    for image, frame in enumerate(ball.frame):
        circles = ball.focus[image] + ball.reach[image] * step * CIRCLE
        circles /= np.maximum(np.linalg.norm(circles, axis=2, keepdims=True), 1)
        yield ((circles @ frame.T, ball.colors[image, ::-1]),)


def paint_boxes(b: Batch) -> Iterator[Painted]:
    box = boxes(b)
    for painted in zip(faces(box), box.colors, strict=True):
        yield (painted,)


def paint_cylinders(b: Batch) -> Iterator[Painted]:
    """Strips along the axis, then the end."""
    turned = cylinders(b)
    for image, shift in enumerate(turned.shift):
        near, far = HALF_CIRCLE - np.array([0, shift]), HALF_CIRCLE + np.array([0, shift])
        strips = np.stack([near[:-1], near[1:], far[1:], far[:-1]], 1)
        yield finished(turned, image, strips, (0, shift))


def paint_cones(b: Batch) -> Iterator[Painted]:
    """Triangles from the base's rim to the apex, then the base where it is seen."""
    turned = cones(b)
    for image, shift in enumerate(turned.shift):
        touch = np.arcsin(min(1.0, 0.5 / shift))
        angle = np.linspace(np.pi - touch, 2 * np.pi + touch, STOPS)
        rim = np.stack([np.cos(angle), np.sin(angle) - shift], 1)
        apex = np.broadcast_to((0.0, shift), rim[1:].shape)
        yield finished(turned, image, np.stack([rim[:-1], rim[1:], apex], 1), (0, -shift))


def finished(turned: Turned, image: int, strips: Floats, end: tuple[float, float]) -> Painted:
    """Strips in the colors midway between stops, and the flat end."""
    frame, stops = turned.frame[image].T, turned.colors[image]
    sides = strips @ frame, (stops[:-1] + stops[1:]) / 2
    if not turned.end_seen[image]:
        return (sides,)
    return sides, ((CIRCLE + end)[None] @ frame, turned.end[None, image])


PAINTERS = {
    **dict.fromkeys((*POLYGONS, "circle", "ellipse"), paint_flat),
    "random": paint_outlines,
    **dict.fromkeys(("sphere_3d", "ellipsoid_3d"), paint_balls),
    **dict.fromkeys(("cube_3d", "cuboid_3d"), paint_boxes),
    "cylinder_3d": paint_cylinders,
    "cone_3d": paint_cones,
}
