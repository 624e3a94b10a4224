"""Elastic deformation: an affine map, then smooth displacements."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.core import Params
from farout.shifts.catalog import register
from farout.shifts.corruption import Corruption
from farout.shifts.tables import Row
from farout.shifts.warping import displace, inverse_maps, warp


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
            across, down = smoothing(width, sigma), smoothing(height, sigma, length)
            warped = displace(warped, fields, across, down, cut_off(sigma))
        return torch.from_numpy(warped).to(images.device)


def cut_off(sigma: float) -> int:
    """The farthest pixel that the Gaussian of this σ weighs."""
    return int(3 * sigma + 0.5)


@functools.lru_cache(maxsize=16)
def smoothing(side: int, sigma: float, gain: float = 1) -> NDArray[Any]:
    """A Gaussian filter cut off at 3σ, edges mirrored behind the outermost pixel, as a symmetric matrix [side, side].

    That of scipy.ndimage with mode "reflect" and truncate 3, times a gain. Wider than the image, the filter is folded
    into it, so that it costs no more than the matrix.
    """
    offsets = np.arange(-cut_off(sigma), cut_off(sigma) + 1)
    taps = np.exp(-0.5 * (offsets / sigma) ** 2)
    places = np.arange(side)[:, None]
    sources = (places + offsets) % (2 * side)
    matrix = np.zeros((side, side))
    np.add.at(matrix, (places, np.minimum(sources, 2 * side - 1 - sources)), gain * taps / taps.sum())
    return matrix.astype(np.float32)
