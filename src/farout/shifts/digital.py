"""Corruptions by the way images are stored: fewer pixels, or JPEG. Both end in the 8 bits that Pillow gives."""

from __future__ import annotations

import functools
import io
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile
from torch import Tensor

from farout.core import Params
from farout.shifts.catalog import register
from farout.shifts.corruption import Corruption
from farout.shifts.edges import compiled
from farout.shifts.tables import Row

Array = NDArray[Any]

BITS = 22
"""Weights of pixels are whole numbers of 2⁻²², as in Pillow."""
ROUND = 1 << BITS - 1
WHITE, HALF = np.float32(255), np.float32(0.5)


@register
class Pixelate(Corruption):
    """Made smaller by Pillow's box filter and large again. At least one pixel of each side is left."""

    name = "pixelate"
    random = False

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        (share,) = constants
        sides = [(side, max(1, int(side * share))) for side in images.shape[-2:]]
        (rows, from_row), (columns, from_column) = ((boxes(*side), nearest(*side)) for side in sides)
        pixels = images.cpu().contiguous().numpy().reshape(-1, *images.shape[-2:])
        coarse = pixelated(pixels, columns, rows, from_column, from_row)
        return torch.from_numpy(coarse).view(images.shape).to(images.device)


@functools.lru_cache(maxsize=16)
def boxes(side: int, smaller: int) -> Array:
    """Of `smaller` boxes over `side` pixels the first pixel, the one behind the last, and their weight; [smaller, 3].

    A box takes the pixels whose middles lie in it. Those on its edge are taken or not as Pillow's roundings have it:
    a range of pixels, then the filter, each computed by its own formula.
    """
    scale = side / smaller
    middles, places = (np.arange(smaller)[:, None] + 0.5) * scale, np.arange(side)
    near = (places >= np.floor(middles - scale / 2 + 0.5)) & (places < np.floor(middles + scale / 2 + 0.5))
    away = (places - middles + 0.5) * (1 / scale)
    inside = near & (away > -0.5) & (away <= 0.5)
    first, count = inside.argmax(1), inside.sum(1)
    return np.stack([first, first + count, np.floor(2**BITS / count + 0.5).astype(np.int64)], 1)


@functools.lru_cache(maxsize=16)
def nearest(side: int, smaller: int) -> Array:
    """Which of `smaller` pixels each of `side` ones repeats."""
    return ((np.arange(side) + 0.5) * (smaller / side)).astype(np.int64)


@compiled
def pixelated(images: Array, columns: Array, rows: Array, from_column: Array, from_row: Array) -> Array:
    """Images [N, H, W] by boxes of columns, then of rows, rounded to 8 bits after each; then large again."""
    out, row = np.empty_like(images), np.empty(images.shape[2], np.float32)
    for i in range(len(images)):
        small = _lower(_narrower(images[i], columns), rows)
        last = -1
        for y in range(len(from_row)):
            if from_row[y] != last:
                last = from_row[y]
                for x in range(row.size):
                    row[x] = np.float32(small[last, from_column[x]]) / WHITE
            out[i, y] = row
    return out


@compiled
def _narrower(image: Array, columns: Array) -> Array:
    out, levels = np.empty((len(image), len(columns)), np.int32), np.empty(image.shape[1], np.int32)
    for y in range(len(image)):
        for x in range(levels.size):
            levels[x] = np.int32(image[y, x] * WHITE + HALF)
        for x in range(len(columns)):
            total = levels[columns[x, 0]]
            for source in range(columns[x, 0] + 1, columns[x, 1]):
                total += levels[source]
            out[y, x] = (total * columns[x, 2] + ROUND) >> BITS
    return out


@compiled
def _lower(levels: Array, rows: Array) -> Array:
    out = np.zeros((len(rows), levels.shape[1]), np.int32)
    for y in range(len(rows)):
        weight = np.int32(rows[y, 2])
        for source in range(rows[y, 0], rows[y, 1]):
            for x in range(levels.shape[1]):
                out[y, x] += levels[source, x]
        for x in range(levels.shape[1]):
            out[y, x] = (out[y, x] * weight + ROUND) >> BITS
    return out


@register
class Jpeg(Corruption):
    """JPEG of a low quality, by Pillow: color at half the resolution, an image of one channel in gray."""

    name = "jpeg"
    random = False

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        (quality,) = constants
        count, channels, height, width = images.shape
        levels = images.mul(255).round_().to(torch.uint8).permute(0, 2, 3, 1).cpu().contiguous().numpy()
        decoded = b"".join(_stored(image, int(quality)) for image in levels)
        restored = torch.frombuffer(bytearray(decoded), dtype=torch.uint8).view(count, height, width, channels)
        return restored.permute(0, 3, 1, 2).contiguous().to(images.device, images.dtype).div_(255)


def _stored(image: Array, quality: int) -> bytes:
    """An 8-bit image [H, W, C] as it comes out of a JPEG file."""
    mode = "RGB" if image.shape[2] == 3 else "L"
    file = io.BytesIO()
    Image.frombuffer(mode, image.shape[1::-1], image, "raw", mode, 0, 1).save(file, "JPEG", quality=quality)
    file.seek(0)
    return JpegImageFile(file).tobytes()
