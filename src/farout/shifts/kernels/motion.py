"""Motion in a straight line."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from farout.shifts.kernels.gaussian import bell
from farout.shifts.kernels.taps import moved_sum

Array = NDArray[Any]


def motion_blur(images: Tensor, radius: int, sigma: float, angles: Tensor) -> Tensor:
    """Images [B, C, H, W] blurred along their angles [B], in degrees: 0 to the right, 90 down. Edges are repeated.

    The taps are those of ImageMagick, which made the published images: half a Gaussian, exp(−i²/2σ²) for i from 0
    to 2·radius, at the pixel nearest to i steps along the angle, where halves are rounded down.
    """
    steps = np.arange(2 * radius + 1)
    half = bell(steps, sigma)
    along = np.deg2rad(angles.cpu().double().numpy())
    return moved_sum(images, _nearest(steps, np.sin(along)), _nearest(steps, np.cos(along)), half / half.sum())


def _nearest(steps: Array, share: Array) -> Array:
    """steps · share in whole pixels, [B, steps]."""
    pixels: Array = np.ceil(steps * share[:, None] - 0.5).astype(np.int64)
    return pixels
