"""Corruptions by what lies between camera and scene."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from farout.core import Params
from farout.shifts.catalog import register
from farout.shifts.corruption import Corruption
from farout.shifts.filters import gaussian
from farout.shifts.tables import Row
from farout.shifts.water import relief

WATER = (175, 238, 238)
MUD = (63, 42, 20)
GRAY = (0.2989, 0.5870, 0.1140)
"""Weights of red, green and blue in an image of one channel."""
LUMA = (0.299, 0.587, 0.114)
"""The same rounded to three digits, as OpenCV has them."""


@register
class Spatter(Corruption):
    """Drops on the lens: blurred noise above a threshold. Water (severity 1 to 3) adds light, mud (4 and 5) covers."""

    name = "spatter"

    def sample(self, shape: Sequence[int], rng: torch.Generator) -> Params:
        return {"noise": torch.randn(*shape[-2:], generator=rng)}

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        mean, sigma, blur, threshold, strength, is_mud = constants
        liquid = gaussian(params["noise"].mul(sigma).add_(mean), blur)
        if is_mud:
            mask = mud(liquid, threshold, strength)[:, None]
            return images.mul(1 - mask).add_(mask * _color(MUD, images))
        mask = water(liquid, threshold)[:, None]
        return mask.mul(strength).mul(_color(WATER, images)).add_(images)


def mud(liquid: Tensor, threshold: float, blur: float) -> Tensor:
    """How far mud covers each pixel, [B, H, W]; nothing where it would be less than 0.8."""
    mask = gaussian((liquid > threshold).to(liquid.dtype), blur)
    return mask.masked_fill_(mask < 0.8, 0)


def water(liquid: Tensor, threshold: float) -> Tensor:
    """How bright water makes each pixel, [B, H, W], 1 at the brightest; 0 where no drop fell."""
    levels = liquid.masked_fill(liquid < threshold, 0).mul(255).int()
    levels = levels.bitwise_and_(255)  # 8 bits overflow here, as in the original
    shine = levels.to(liquid.dtype).mul_(relief(levels))
    return shine.div(shine.amax((1, 2), keepdim=True)).nan_to_num_(0)


def _color(color: Sequence[int], images: Tensor) -> Tensor:
    """A color, or its gray for images of one channel; [C, 1, 1]."""
    gray = sum(weight * part for weight, part in zip(GRAY, color, strict=True))
    parts = list(color) if images.shape[1] == 3 else [gray]
    return images.new_tensor(parts).div_(255)[:, None, None]


def gray(images: Tensor) -> Tensor:
    """Images [B, C, H, W] without color, [B, 1, H, W]."""
    if images.shape[1] == 1:
        return images.clone()
    total = images[:, :1] * LUMA[0]
    return total.add_(images[:, 1:2], alpha=LUMA[1]).add_(images[:, 2:], alpha=LUMA[2])
