"""Draws scenes: `render` fast and to 8 bits, `draw` with gradients; by the same formulas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from farout.data.scenes import columns, glyphs
from farout.data.scenes.lighting import blend
from farout.data.scenes.painter import outliner, painter
from farout.data.scenes.primitives import PRIMITIVES, Primitive
from farout.data.scenes.scene import BACKGROUND, GLYPHS, KINDS, Scenes

VERSION = 1
"""Bumped by hand whenever pixels change."""
SMALLEST_SIDE = 8
_FIRST_GLYPH = len(KINDS) - len(GLYPHS)
_PRIMITIVE_OF = np.array([next(i for i, p in enumerate(PRIMITIVES) if kind in p.kinds) for kind in KINDS])


def render(scenes: Scenes, side: int, font: Path | None = None) -> Tensor:
    """Images of 8 bits, [B, 3, side, side]. The same scene gives the same bytes in any batch."""
    if scenes.kind.device.type != "cpu":
        return (draw(scenes, side, font) * 255).round().to(torch.uint8)
    table = _checked(scenes, side).detach().numpy()
    pixels = torch.full((len(table), 3, side, side), round(255 * BACKGROUND), dtype=torch.uint8)
    for primitive, places in _groups(table[:, columns.KIND]):
        rows, row_of = _rows(primitive, table[places], font)
        painter(primitive.prepare, primitive.shade)(table[places], rows, row_of, places, pixels.numpy())
    return pixels


def draw(scenes: Scenes, side: int, font: Path | None = None) -> Tensor:
    """Images in 0..1, float32 [B, 3, side, side]; differentiable in hue, size, rotation, position and light."""
    table = _checked(scenes, side)
    device = table.device
    images = torch.empty((len(table), 3, side, side), device=device)
    steps = torch.arange(side, dtype=torch.float32, device=device)
    for primitive, places in _groups(table[:, columns.KIND].detach().cpu().numpy()):
        mine = table[torch.from_numpy(places).to(device)]
        row = _row_tensor(primitive, mine, font)
        p = [value[:, None, None] for value in primitive.prepare(mine.unbind(1), side, row)]
        x, y = steps[None, None, :] - p[0], p[1] - steps[None, :, None]
        cover, factor, highlight = primitive.shade(x, y, p, row)
        drawn = torch.stack([blend(cover, factor, highlight, p[4 + channel]) for channel in range(3)], 1)
        images = images.index_copy(0, torch.from_numpy(places).to(device), drawn)
    return images


def extent(scenes: Scenes, font: Path | None = None) -> Tensor:
    """Half width and half height of each figure's box about its center, in shares of the side, float64 [B, 2]."""
    table = _checked(scenes, SMALLEST_SIDE)
    reaches = torch.empty((len(table), 2), dtype=torch.float64, device=table.device)
    for primitive, places in _groups(table[:, columns.KIND].detach().cpu().numpy()):
        mine = table[torch.from_numpy(places).to(table.device)]
        reach = torch.stack(primitive.reach(mine.unbind(1), _row_tensor(primitive, mine, font)), 1)
        reaches = reaches.index_copy(0, torch.from_numpy(places).to(table.device), reach)
    return reaches


def _groups(kinds: np.ndarray) -> Iterator[tuple[Primitive, np.ndarray]]:
    """The primitives that occur, each with the places of its scenes."""
    which = _PRIMITIVE_OF[kinds.astype(np.int64)]
    for number in np.unique(which):
        yield PRIMITIVES[number], np.flatnonzero(which == number)


def _rows(primitive: Primitive, table: np.ndarray, font: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Tables of numbers that formulas look up, and which of them each scene uses."""
    if primitive.kinds == GLYPHS:
        return glyphs.atlas(font), table[:, columns.KIND].astype(np.int64) - _FIRST_GLYPH
    if primitive.outline is None:
        return np.zeros((1, 1), np.float32), np.zeros(len(table), np.int64)
    rows = np.zeros((len(table), primitive.width), np.float32)
    outliner(primitive.outline)(table, rows)
    return rows, np.arange(len(table))


def _row_tensor(primitive: Primitive, table: Tensor, font: Path | None) -> Tensor:
    rows, row_of = _rows(primitive, table.detach().cpu().numpy(), font)
    return torch.from_numpy(rows[row_of]).to(table.device)


def _checked(scenes: Scenes, side: int) -> Tensor:
    if side < SMALLEST_SIDE:
        raise ValueError(f"side is {side}; images must have a side of at least {SMALLEST_SIDE} pixels")
    table = columns.table(scenes)
    return table
