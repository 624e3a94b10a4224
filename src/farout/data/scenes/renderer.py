"""Renderer of scenes: `render` is fast and returns 8-bit values, `draw` is differentiable, by the same formulas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.data.scenes import columns, glyphs
from farout.data.scenes.lighting import blend
from farout.data.scenes.painter import compile_outline, compile_painter
from farout.data.scenes.primitives import NUMBER_OF, PRIMITIVES, Primitive
from farout.data.scenes.scene import BACKGROUND, GLYPHS, KINDS, Scenes

VERSION = 1
"""Bumped by hand whenever pixels change."""
SMALLEST_SIDE = 8
FIRST_GLYPH = KINDS.index(GLYPHS[0])

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


def render(scenes: Scenes, side: int, font: Path | None = None) -> Tensor:
    """Render 8-bit images [B, 3, side, side], equal to rounded `draw`. A scene has the same bytes in any batch.

    On the CPU by compiled code; the first use of a family of figures compiles it, which takes a few seconds.
    """
    if scenes.kind.device.type != "cpu":
        return (draw(scenes, side, font) * 255).round().to(torch.uint8)
    table = columns.table(scenes).detach().numpy()
    pixels = torch.full((len(table), 3, _at_least(side), side), round(255 * BACKGROUND), dtype=torch.uint8)
    canvas = pixels.numpy()
    for primitive, indices in _groups(table):
        compile_painter(primitive)(table, indices, *_rows(primitive, table, indices, font), canvas)
    return pixels


def draw(scenes: Scenes, side: int, font: Path | None = None) -> Tensor:
    """Render images in 0..1, float32 [B, 3, side, side]; differentiable in hue, size, rotation, position and light."""
    table = columns.table(scenes)
    steps = torch.arange(_at_least(side), dtype=torch.float32, device=table.device)
    order, images = [table.new_empty(0).long()], [steps.new_empty((0, 3, side, side))]
    for primitive, indices, group, row in _tensor_groups(table, font):
        p = [value[:, None, None] for value in primitive.prepare(group.unbind(1), side, row)]
        x, y = steps[None, None, :] - p[0], p[1] - steps[None, :, None]
        cover, factor, highlight = primitive.shade(x, y, p, primitive.table_entries(x, y, p, row))
        order.append(indices)
        images.append(torch.stack([blend(cover, factor, highlight, channel) for channel in p[4:7]], 1))
    return torch.cat(images)[torch.cat(order).argsort()]


def extent(scenes: Scenes, font: Path | None = None) -> Tensor:
    """Return the extent of each figure from its center in x and y, the larger of both directions.

    In fractions of the side, float64 [B, 2].
    """
    table = columns.table(scenes)
    order, reaches = [table.new_empty(0).long()], [table.new_empty((0, 2))]
    for primitive, indices, group, row in _tensor_groups(table, font, corners_only=True):
        order.append(indices)
        reaches.append(torch.stack(primitive.reach(group.unbind(1), row), 1))
    return torch.cat(reaches)[torch.cat(order).argsort()]


def _at_least(side: int) -> int:
    if side < SMALLEST_SIDE:
        raise ValueError(f"side is {side}; expected at least {SMALLEST_SIDE} pixels")
    return side


def _groups(table: Floats) -> Iterator[tuple[Primitive, Places]]:
    """Yield each primitive that occurs with the indices of its scenes."""
    numbers = NUMBER_OF[table[:, columns.KIND].astype(np.int64)]
    order, ends = np.argsort(numbers, kind="stable"), np.cumsum(np.bincount(numbers)).tolist()
    for primitive, start, end in zip(PRIMITIVES, [0, *ends], ends, strict=False):
        if start < end:
            yield primitive, order[start:end]


def _tensor_groups(
    table: Tensor, font: Path | None, corners_only: bool = False
) -> Iterator[tuple[Primitive, Tensor, Tensor, Tensor]]:
    """Yield the same as `_groups` on the table's device, with the scenes' rows and their lookup tables."""
    values = table.detach().cpu().numpy()
    for primitive, members in _groups(values):
        indices = torch.from_numpy(members).to(table.device)
        rows, row_of = _rows(primitive, values, members, font)
        used = rows[:, : 2 * primitive.corners] if corners_only else rows
        yield primitive, indices, table[indices], torch.from_numpy(used[row_of]).to(table.device)


def _rows(
    primitive: Primitive, table: Floats, indices: Places, font: Path | None
) -> tuple[NDArray[np.float32], Places]:
    """Return the lookup tables of the formulas, and the index of each scene's table."""
    if primitive.kinds == GLYPHS:
        return glyphs.atlas(font), table[indices, columns.KIND].astype(np.int64) - FIRST_GLYPH
    if primitive.outline is None:
        return np.zeros((1, 1), np.float32), np.zeros(len(indices), np.int64)
    rows = np.zeros((len(indices), 5 * primitive.corners), np.float32)
    compile_outline(primitive.outline)(table, indices, rows)
    return rows, np.arange(len(indices))
