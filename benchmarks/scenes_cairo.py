"""SHAPES drawn with cairo: anti-aliased paths, and gradients for solids."""

from __future__ import annotations

import math
from collections.abc import Callable

import cairo
import numpy as np
from PIL import Image

from benchmarks.scenes_geometry import GREY, POLYGONS, Batch, Bytes, Floats, batch, spline
from benchmarks.scenes_gradients import STOPS, Turned, balls, boxes, cones, cylinders, faces
from farout.data.scenes.scene import Scenes

Color = tuple[float, float, float]
CORNERS = {kind: corners.tolist() for kind, corners in POLYGONS.items()}
TURN = 2 * math.pi


class Cairo:
    """A batch at a time on one tall surface, whose pixels are then brought to RGB at once."""

    def __init__(self, side: int, tiles: int) -> None:
        self.side = side
        surface = cairo.ImageSurface(cairo.FORMAT_RGB24, side, side * tiles)
        self.surface, self.context = surface, cairo.Context(surface)
        self.shape = (side, side * tiles)

    def __call__(self, scenes: Scenes) -> Bytes:
        """Images [B, side, side, 3]."""
        b = batch(scenes)
        self.context.identity_matrix()
        self.context.set_source_rgb(GREY / 255, GREY / 255, GREY / 255)
        self.context.paint()
        for kind, places in b.places().items():
            DRAWERS[kind](self, b[places], self._origins(b, places))
        self.surface.flush()
        pixels = Image.frombuffer("RGB", self.shape, self.surface.get_data(), "raw", "BGRX", self.surface.get_stride())
        return np.asarray(pixels).reshape(-1, self.side, self.side, 3)[: len(b.kinds)]

    def _origins(self, b: Batch, places: Floats) -> list[list[float]]:
        """Centers of figures in pixels of the surface."""
        center = (np.array([0.5, 0.5]) + b.position[places] * np.array([1, -1])) * self.side
        center[:, 1] += places * self.side
        return center.tolist()

    def matrices(self, frames: Floats, origins: list[list[float]]) -> list[cairo.Matrix]:
        """From units of each figure's frame, [B, 2, 2], to pixels."""
        scaled = (frames * (self.side * np.array([[1], [-1]]))).transpose(0, 2, 1).reshape(-1, 4).tolist()
        return [cairo.Matrix(*frame, *origin) for frame, origin in zip(scaled, origins, strict=True)]

    def place(self, matrix: cairo.Matrix, color: Color) -> None:
        self.context.set_matrix(matrix)
        self.context.set_source_rgb(*color)

    def fill(self, corners: list[list[float]]) -> None:
        for x, y in corners:
            self.context.line_to(x, y)
        self.context.fill()


def draw_polygons(to: Cairo, b: Batch, origins: list[list[float]]) -> None:
    corners = CORNERS[b.kinds[0]]
    for matrix, color in zip(to.matrices(b.model[:, :2, :2], origins), flat_colors(b), strict=True):
        to.place(matrix, color)
        to.fill(corners)


def draw_ellipses(to: Cairo, b: Batch, origins: list[list[float]]) -> None:
    for matrix, color in zip(to.matrices(b.model[:, :2, :2], origins), flat_colors(b), strict=True):
        to.place(matrix, color)
        to.context.arc(0, 0, 0.5, 0, TURN)
        to.context.fill()


def draw_outlines(to: Cairo, b: Batch, origins: list[list[float]]) -> None:
    for image, matrix in enumerate(to.matrices(b.model[:, :2, :2], origins)):
        to.place(matrix, flat_colors(b)[image])
        points, tangents = spline(b, image)
        ends = np.roll(points, -1, 0)
        curves = np.concatenate([points + tangents / 3, ends - np.roll(tangents, -1, 0) / 3, ends], 1).tolist()
        to.context.move_to(*points[0])
        for curve in curves:
            to.context.curve_to(*curve)
        to.context.fill()


def draw_balls(to: Cairo, b: Batch, origins: list[list[float]]) -> None:
    ball = balls(b)
    stops, focuses = ball.colors.tolist(), (0.999 * ball.focus).tolist()
    for image, matrix in enumerate(to.matrices(ball.frame, origins)):
        to.context.set_matrix(matrix)
        to.context.set_source(stopped(cairo.RadialGradient(*focuses[image], 0, 0, 0, 1), stops[image]))
        to.context.arc(0, 0, 1, 0, TURN)
        to.context.fill()


def draw_boxes(to: Cairo, b: Batch, origins: list[list[float]]) -> None:
    box = boxes(b)
    corners, colors = faces(box).tolist(), box.colors.tolist()
    upright = np.broadcast_to(np.eye(2), (len(origins), 2, 2))
    for image, matrix in enumerate(to.matrices(upright, origins)):
        for face in range(3):
            to.place(matrix, colors[image][face])
            to.fill(corners[image][face])


def draw_cylinders(to: Cairo, b: Batch, origins: list[list[float]]) -> None:
    def silhouette(shift: float) -> None:
        to.context.arc(0, shift, 1, 0, TURN / 2)
        to.context.arc(0, -shift, 1, TURN / 2, TURN)

    draw_turned(to, cylinders(b), origins, silhouette, 1)


def draw_cones(to: Cairo, b: Batch, origins: list[list[float]]) -> None:
    def silhouette(shift: float) -> None:
        touch = math.asin(min(1.0, 0.5 / shift))
        to.context.arc(0, -shift, 1, TURN / 2 - touch, TURN + touch)
        if touch < TURN / 4:
            to.context.line_to(0, shift)

    draw_turned(to, cones(b), origins, silhouette, -1)


def draw_turned(
    to: Cairo, turned: Turned, origins: list[list[float]], silhouette: Callable[[float], None], end: int
) -> None:
    """The silhouette in a gradient across the axis, then the flat end."""
    stops, ends, shifts = turned.colors.tolist(), turned.end.tolist(), turned.shift.tolist()
    for image, matrix in enumerate(to.matrices(turned.frame, origins)):
        to.context.set_matrix(matrix)
        to.context.set_source(stopped(cairo.LinearGradient(-1, 0, 1, 0), stops[image]))
        silhouette(shifts[image])
        to.context.fill()
        if turned.end_seen[image]:
            to.context.set_source_rgb(*ends[image])
            to.context.arc(0, end * shifts[image], 1, 0, TURN)
            to.context.fill()


def stopped(gradient: cairo.Gradient, colors: list[Color]) -> cairo.Gradient:
    for stop, color in enumerate(colors):
        gradient.add_color_stop_rgb(stop / (STOPS - 1), *color)
    return gradient


def flat_colors(b: Batch) -> list[Color]:
    return (b.color * b.strengths[:, :1]).tolist()  # type: ignore[no-any-return]


DRAWERS = {
    **dict.fromkeys(POLYGONS, draw_polygons),
    **dict.fromkeys(("circle", "ellipse"), draw_ellipses),
    "random": draw_outlines,
    **dict.fromkeys(("sphere_3d", "ellipsoid_3d"), draw_balls),
    **dict.fromkeys(("cube_3d", "cuboid_3d"), draw_boxes),
    "cylinder_3d": draw_cylinders,
    "cone_3d": draw_cones,
}
