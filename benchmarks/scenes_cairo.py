"""SHAPES drawn with cairo: anti-aliased paths, and gradients for solids."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import cairo
import numpy as np

from benchmarks.scenes_geometry import GRAY, POLYGONS, Batch, Bytes, Floats, batch, curves
from benchmarks.scenes_gradients import STOPS, Turned, balls, boxes, cones, cylinders, faces
from farout.data.scenes.scene import Scenes

Color = tuple[float, float, float]
CORNERS = {kind: corners.tolist() for kind, corners in POLYGONS.items()}
TURN = 2 * math.pi


class Cairo:
    """An image at a time on one surface, while what needs arithmetic is prepared for all images of a kind."""

    def __init__(self, side: int) -> None:
        self.side = side
        self.pixels = np.empty((side, side, 4), np.uint8)
        self.surface = cairo.ImageSurface.create_for_data(self.pixels, cairo.FORMAT_RGB24, side, side)
        self.context = cairo.Context(self.surface)

    def __call__(self, scenes: Scenes) -> Bytes:
        """Images [B, side, side, 3]."""
        b = batch(scenes)
        images = np.empty((len(b.kinds), self.side, self.side, 3), np.uint8)
        origins = (np.array([0.5, 0.5]) + b.position * np.array([1, -1])) * self.side
        for drawer, places in b.groups(DRAWERS):
            self.pixels[:] = GRAY
            for place, _ in zip(places, drawer(self, b[places], origins[places].tolist()), strict=True):
                self.surface.flush()
                for channel in range(3):
                    images[place, ..., channel] = self.pixels[..., 2 - channel]
                self.pixels[:] = GRAY
                self.surface.mark_dirty()
        return images

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


def draw_polygons(to: Cairo, b: Batch, origins: list[list[float]]) -> Iterator[None]:
    matrices = to.matrices(b.model[:, :2, :2], origins)
    for kind, matrix, color in zip(b.kinds, matrices, flat_colors(b), strict=True):
        to.place(matrix, color)
        to.fill(CORNERS[kind])
        yield


def draw_ellipses(to: Cairo, b: Batch, origins: list[list[float]]) -> Iterator[None]:
    for matrix, color in zip(to.matrices(b.model[:, :2, :2], origins), flat_colors(b), strict=True):
        to.place(matrix, color)
        to.context.arc(0, 0, 0.5, 0, TURN)
        to.context.fill()
        yield


def draw_outlines(to: Cairo, b: Batch, origins: list[list[float]]) -> Iterator[None]:
    curve, colors = curves(b), flat_colors(b)
    pieces = np.concatenate([curve.start + curve.leaving / 3, curve.end - curve.arriving / 3, curve.end], 2).tolist()
    for image, matrix in enumerate(to.matrices(b.model[:, :2, :2], origins)):
        to.place(matrix, colors[image])
        to.context.move_to(*curve.start[image, 0])
        for piece in pieces[image][: b.points[image]]:
            to.context.curve_to(*piece)
        to.context.fill()
        yield


def draw_balls(to: Cairo, b: Batch, origins: list[list[float]]) -> Iterator[None]:
    ball = balls(b)
    stops, focuses, reaches = ball.colors.tolist(), ball.focus.tolist(), ball.reach.tolist()
    for image, matrix in enumerate(to.matrices(ball.frame, origins)):
        to.context.set_matrix(matrix)
        gradient = cairo.RadialGradient(*focuses[image], 0, *focuses[image], reaches[image])
        to.context.set_source(stopped(gradient, stops[image]))
        to.context.arc(0, 0, 1, 0, TURN)
        to.context.fill()
        yield


def draw_boxes(to: Cairo, b: Batch, origins: list[list[float]]) -> Iterator[None]:
    box = boxes(b)
    corners, colors = faces(box).tolist(), box.colors.tolist()
    upright = np.broadcast_to(np.eye(2), (len(origins), 2, 2))
    for image, matrix in enumerate(to.matrices(upright, origins)):
        for face in range(3):
            to.place(matrix, colors[image][face])
            to.fill(corners[image][face])
        yield


def draw_cylinders(to: Cairo, b: Batch, origins: list[list[float]]) -> Iterator[None]:
    def silhouette(shift: float) -> None:
        to.context.arc(0, shift, 1, 0, TURN / 2)
        to.context.arc(0, -shift, 1, TURN / 2, TURN)

    return draw_turned(to, cylinders(b), origins, silhouette, 1)


def draw_cones(to: Cairo, b: Batch, origins: list[list[float]]) -> Iterator[None]:
    def silhouette(shift: float) -> None:
        touch = math.asin(min(1.0, 0.5 / shift))
        to.context.arc(0, -shift, 1, TURN / 2 - touch, TURN + touch)
        if touch < TURN / 4:
            to.context.line_to(0, shift)

    return draw_turned(to, cones(b), origins, silhouette, -1)


def draw_turned(
    to: Cairo, turned: Turned, origins: list[list[float]], silhouette: Callable[[float], None], end: int
) -> Iterator[None]:
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
        yield


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
