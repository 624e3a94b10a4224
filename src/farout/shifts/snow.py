"""Snow: flakes in motion, before a scene that turns pale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.core import Params
from farout.shifts.catalog import register
from farout.shifts.corruption import Corruption, truncate
from farout.shifts.motion import motion_blur
from farout.shifts.resample import linear
from farout.shifts.tables import Row
from farout.shifts.weather import gray

FIRST, LAST = -135.0, -45.0
"""Flakes move at angles between these, in degrees."""


@register
class Snow(Corruption):
    """Enlarged noise above a threshold, blurred by motion: blend·x + (1 − blend)·max(x, 1.5·gray + .5) + flakes.

    The flakes are added twice, the second time turned by 180°. Noise is drawn for the part that is enlarged only.
    """

    name = "snow"

    def sample(self, shape: Sequence[int], rng: torch.Generator) -> Params:
        zoom = self.constants(shape)[2]
        rows, columns = (enlarged_part(side, zoom) for side in shape[-2:])
        return {"noise": torch.randn(rows, columns, generator=rng), "angle": torch.rand((), generator=rng)}

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        mean, sigma, zoom, threshold, radius, blur, blend = constants
        height, width = images.shape[2:]
        cloud = params["noise"].mul(sigma).add_(mean)
        if zoom != 1:
            cloud = linear(cloud, enlarged(height, zoom), enlarged(width, zoom))
        layer = truncate(cloud.masked_fill_(cloud < threshold, 0))[:, None]
        angles = params["angle"].mul(LAST - FIRST).add_(FIRST)
        layer = motion_blur(layer, int(radius), blur, angles).mul_(255).round_().div_(255)
        pale = torch.maximum(images, gray(images).mul_(1.5).add_(0.5)).mul_(1 - blend)
        return pale.add_(images, alpha=blend).add_(layer + layer.flip(2, 3))


def enlarged_part(side: int, zoom: float) -> int:
    """Length of the middle part of a side that fills the side when enlarged."""
    return math.ceil(side / zoom)


def enlarged(side: int, zoom: float) -> NDArray[Any]:
    """Where in the middle part each of `side` enlarged pixels lies; first meets first and last meets last.

    Rounding may give more pixels than the side has. Then half of the surplus is cut off in front.
    """
    part = enlarged_part(side, zoom)
    count = round(part * zoom)
    surplus = (count - side) // 2
    return np.linspace(0, part - 1, count)[surplus : surplus + side]
