"""Light on curved solids as gradients: colors along a line or over circles, as 2D libraries paint them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.scenes_geometry import LEVEL, STEEP, Batch, Floats, phong

STOPS = 13
"""Colors of a gradient, at equal steps."""
THIN = 0.01
"""Smaller over larger half axis of a disc seen edge-on, at least."""


class Ball(NamedTuple):
    """Ellipsoids: the map from the unit disc to the silhouette, and circles of one color about a point in the disc."""

    frame: Floats
    focus: Floats
    reach: Floats
    """Radius of the last circle."""
    colors: Floats


def balls(b: Batch) -> Ball:
    """From the brightest point, where the normal lies midway between light and viewer, to the rim opposite."""
    model = b.model / 2
    seen = model[:, :2]
    frame = np.linalg.cholesky(seen @ seen.transpose(0, 2, 1))
    across = np.linalg.inv(frame) @ seen  # [B, 2, 3], orthonormal rows
    ahead = np.cross(across[:, 0], across[:, 1])
    ahead *= np.sign(np.einsum("bi,bi->b", model[:, 2], ahead))[:, None]
    middle = _unit(b.light + np.array([0, 0, 1]))
    focus = np.einsum("bij,bj->bi", across, _unit(np.einsum("bji,bj->bi", model, middle)))
    step = np.linspace(0, 1, STOPS)[:, None]
    disc = focus[:, None] * (1 - step) - _unit(focus)[:, None] * step  # [B, S, 2]
    height = np.sqrt(np.maximum(1 - (disc**2).sum(2), 0))
    points = disc @ across + height[..., None] * ahead[:, None]
    reach = 1 + np.linalg.norm(focus, axis=1)
    return Ball(frame, focus, reach, phong(_unit(points @ np.linalg.inv(model)), b))


class Turned(NamedTuple):
    """Cylinders and cones, by their axis in the image.

    The frame maps the unit disc to a cap or base at the center; `shift` is how far along its second axis, in units of
    that frame, the ends stand from the center.
    """

    frame: Floats
    shift: Floats
    colors: Floats
    """Of the side, across the axis."""
    end: Floats
    """Color of the flat end, [B, 3]."""
    end_seen: Floats


def cylinders(b: Batch) -> Turned:
    """The end at +shift is the one that faces the viewer."""
    axis = b.axes[..., 1]
    axis = axis * np.where(axis[:, 2:] < 0, -1, 1)
    frame, shift, basis = _frame(b, axis)
    across = np.linspace(-1, 1, STOPS)
    rim = np.stack([across, 0 * across, np.sqrt(1 - across**2)], 1)
    return Turned(frame, shift, phong(rim @ basis, b), phong(axis[:, None], b)[:, 0], np.ones(len(axis), bool))


def cones(b: Batch) -> Turned:
    """The apex stands at +shift, the base at -shift."""
    axis = b.axes[..., 1]
    frame, shift, basis = _frame(b, axis)
    across = np.linspace(-1, 1, STOPS)
    rim = np.stack([across * STEEP, 0 * across + LEVEL, np.sqrt(1 - across**2) * STEEP], 1)
    return Turned(frame, shift, phong(rim @ basis, b), phong(-axis[:, None], b)[:, 0], axis[:, 2] < 0)


def _frame(b: Batch, axis: Floats) -> tuple[Floats, Floats, Floats]:
    """Frame and shift, and the directions across the axis, along it and ahead as rows, [B, 3, 3]."""
    length = np.maximum(np.hypot(axis[:, 0], axis[:, 1]), 1e-6)
    x, y = axis[:, 0] / length, axis[:, 1] / length
    wide = b.extents[:, 0] / 2
    thin = np.maximum(np.abs(axis[:, 2]), THIN)
    frame = np.array([[y * wide, x * wide * thin], [-x * wide, y * wide * thin]]).transpose(2, 0, 1)
    across = np.stack([y, -x, 0 * x], 1)
    return frame, length / thin, np.stack([across, axis, np.cross(across, axis)], 1)


class Boxes(NamedTuple):
    """Cuboids: half edges that point to the viewer, as rows, and the colors of the faces they end on."""

    edges: Floats
    colors: Floats


def boxes(b: Batch) -> Boxes:
    """Half edges [B, 3, 2] and colors [B, 3, 3]."""
    axes = b.axes.transpose(0, 2, 1)
    axes = axes * np.where(axes[..., 2:] < 0, -1, 1)
    return Boxes((axes * b.extents[..., None] / 2)[..., :2], phong(axes, b))


SIGNS = np.array(
    [
        [(1, -1, -1), (1, 1, -1), (-1, 1, -1), (-1, 1, 1), (-1, -1, 1), (1, -1, 1)],
        [(-1, 1, -1), (1, 1, -1), (1, 1, 1), (-1, 1, 1), (-1, 1, 1), (-1, 1, 1)],
        [(-1, -1, 1), (1, -1, 1), (1, 1, 1), (-1, 1, 1), (-1, 1, 1), (-1, 1, 1)],
    ]
)
"""Corners of a cuboid's silhouette, then of its second and third face, painted over the first; the last repeats."""


def faces(box: Boxes) -> Floats:
    """The corners of what is painted in turn, [B, 3, 6, 2]."""
    return np.einsum("fcs,bsi->bfci", SIGNS, box.edges)


def _unit(vectors: Floats) -> Floats:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)
