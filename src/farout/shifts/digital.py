"""Digital corruptions: elastic deformation, pixelation and JPEG compression."""

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
from farout.shifts.kernels.boxes import box_bounds, nearest_indices, pixelate
from farout.shifts.kernels.gaussian import gaussian_matrix, truncation_radius
from farout.shifts.kernels.levels import from_bytes, to_bytes
from farout.shifts.kernels.warping import displace, inverse_maps, warp
from farout.shifts.tables import Row


@register
class Elastic(Corruption):
    """Random affine map, given by three points that move at random, then a smooth field of displacements.

    The points lie a third of the shorter side around the center, (+, +), (+, −) and (−, −). Edges are mirrored: at the
    outermost pixel in the affine map, behind it in the displacements and in the Gaussian (truncated at 3σ) that smooths
    them. If the displacements have length 0, none are drawn.
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
            warped = displace(warped, fields, across, down, truncation_radius(sigma))
        return torch.from_numpy(warped).to(images.device)


class Rounded(Corruption):
    """Corruption with 8-bit results from Pillow, which need no truncation."""

    def apply(self, images: Tensor, params: Params) -> Tensor:
        return self.corrupt(images, params, self.constants(images.shape))


@register
class Pixelate(Rounded):
    """Reduction by Pillow's box filter, at least to one pixel per side, and enlargement by repetition."""

    name = "pixelate"
    random = False

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        (share,) = constants
        sides = [(side, max(1, int(side * share))) for side in images.shape[-2:]]
        (rows, from_row), (columns, from_column) = ((box_bounds(*side), nearest_indices(*side)) for side in sides)
        pixels = images.cpu().contiguous().numpy().reshape(-1, *images.shape[-2:])
        coarse = pixelate(pixels, columns, rows, from_column, from_row)
        return torch.from_numpy(coarse).view(images.shape).to(images.device)


@register
class Jpeg(Rounded):
    """JPEG compression of low quality by Pillow: color at half the resolution, images of one channel as gray."""

    name = "jpeg"
    random = False

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        (quality,) = constants
        levels = to_bytes(images)
        restored = b"".join(_compress(image, int(quality)) for image in levels)
        return from_bytes(np.frombuffer(bytearray(restored), np.uint8).reshape(levels.shape)).to(images.device)


def _compress(image: NDArray[np.uint8], quality: int) -> bytes:
    """Return the bytes of an 8-bit image [H, W, C] after JPEG compression and decoding."""
    mode = "RGB" if image.shape[2] == 3 else "L"
    file = io.BytesIO()
    Image.frombuffer(mode, image.shape[1::-1], image, "raw", mode, 0, 1).save(file, "JPEG", quality=quality)
    file.seek(0)
    return JpegImageFile(file).tobytes()
