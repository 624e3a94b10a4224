"""Corruptions of the grid of pixels: bent, coarse, or stored as JPEG."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile
from torch import Tensor

from farout.core import Params
from farout.shifts.catalog import register
from farout.shifts.corruption import Corruption
from farout.shifts.kernels.boxes import boxes, nearest, pixelated
from farout.shifts.kernels.gaussian import cut_off, gaussian_matrix
from farout.shifts.kernels.levels import from_bytes, to_bytes
from farout.shifts.kernels.warping import displace, inverse_maps, warp
from farout.shifts.tables import Row


@register
class Elastic(Corruption):
    """An affine map given by three points that move at random, then a smooth field of displacements.

    The points lie a third of the shorter side around the middle, (+, +), (+, −) and (−, −). Edges are mirrored: at
    the outermost pixel in the affine map, behind it in the displacements and in the Gaussian (cut off at 3σ) that
    smooths them. Where the constants give the displacements no length, none are drawn.
    """

    name = "elastic"

    def sample(self, shape: Sequence[int], rng: torch.Generator) -> Params:
        length, _, _ = self.constants(shape)
        pixels = shape[-2] * shape[-1] if length else 0
        return {"uniform": torch.rand(2 * (3 + pixels), generator=rng)}  # of the points, then of every pixel

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        length, sigma, jitter = constants
        height, width = images.shape[-2:]
        uniform = params["uniform"].mul(2).sub_(1).cpu()
        moves = uniform[:, :6].mul(jitter).view(-1, 3, 2).numpy()
        warped = warp(images.cpu().contiguous().numpy(), inverse_maps(moves, height, width))
        if length:
            fields = uniform[:, 6:].contiguous().view(-1, width, 2 * height).numpy()
            across, down = gaussian_matrix(width, sigma), gaussian_matrix(height, sigma, length)
            warped = displace(warped, fields, across, down, cut_off(sigma))
        return torch.from_numpy(warped).to(images.device)


class Rounded(Corruption):
    """A corruption that Pillow made in 8 bits, so that nothing is left to truncate."""

    def apply(self, images: Tensor, params: Params) -> Tensor:
        return self.corrupt(images, params, self.constants(images.shape))


@register
class Pixelate(Rounded):
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


@register
class Jpeg(Rounded):
    """JPEG of a low quality, by Pillow: color at half the resolution, an image of one channel in gray."""

    name = "jpeg"
    random = False

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        (quality,) = constants
        levels = to_bytes(images)
        restored = b"".join(_stored(image, int(quality)) for image in levels)
        return from_bytes(np.frombuffer(bytearray(restored), np.uint8).reshape(levels.shape)).to(images.device)


def _stored(image: NDArray[np.uint8], quality: int) -> bytes:
    """An 8-bit image [H, W, C] as it comes out of a JPEG file."""
    mode = "RGB" if image.shape[2] == 3 else "L"
    file = io.BytesIO()
    Image.frombuffer(mode, image.shape[1::-1], image, "raw", mode, 0, 1).save(file, "JPEG", quality=quality)
    file.seek(0)
    return JpegImageFile(file).tobytes()
