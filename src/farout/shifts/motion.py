"""Motion blur."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from farout.core import Params
from farout.shifts.catalog import register
from farout.shifts.corruption import Corruption
from farout.shifts.tables import Row
from farout.shifts.taps import Array, moved_sum

STEEPEST = 45.0
"""The angles are drawn from −45° to 45°."""


@register
class MotionBlur(Corruption):
    """The camera moves in a straight line at an angle of −45° to 45°."""

    name = "motion_blur"

    def sample(self, shape: Sequence[int], rng: torch.Generator) -> Params:
        return {"angle": torch.rand((), generator=rng).mul_(2 * STEEPEST).sub_(STEEPEST)}

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        radius, sigma = constants
        return motion_blur(images, int(radius), sigma, params["angle"])


def motion_blur(images: Tensor, radius: int, sigma: float, angles: Tensor) -> Tensor:
    """Images [B, C, H, W] blurred along their angles [B], in degrees: 0 to the right, 90 down. Edges are repeated.

    The taps are those of ImageMagick, which made the published images: half a Gaussian, exp(−i²/2σ²) for i from 0
    to 2·radius, at the pixel nearest to i steps along the angle, where halves are rounded down.
    """
    steps = np.arange(2 * radius + 1)
    half = np.exp(-0.5 * (steps / sigma) ** 2)
    along = np.deg2rad(angles.double().cpu().numpy())
    return moved_sum(images, _nearest(steps, np.sin(along)), _nearest(steps, np.cos(along)), half / half.sum())


def _nearest(steps: Array, share: Array) -> Array:
    """steps · share in whole pixels, [B, steps]."""
    pixels: Array = np.ceil(steps * share[:, None] - 0.5).astype(np.int64)
    return pixels
