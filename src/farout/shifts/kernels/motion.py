"""Motion blur along a straight line."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from farout.shifts.kernels.gaussian import gaussian_values
from farout.shifts.kernels.taps import shifted_sum

Array = NDArray[Any]


def motion_blur(images: Tensor, radius: int, sigma: float, angles: Tensor) -> Tensor:
    """Return images [B, C, H, W] blurred along their angles [B], in degrees: 0 right, 90 down. Edges are repeated.

    The taps are those of ImageMagick, which computed the published images: half a Gaussian, exp(−i²/2σ²) for i from 0
    to 2·radius, at the pixel nearest to i steps along the angle; halves are rounded down.
    """
    steps = np.arange(2 * radius + 1)
    half = gaussian_values(steps, sigma)
    along = np.deg2rad(angles.cpu().double().numpy())
    return shifted_sum(images, _nearest(steps, np.sin(along)), _nearest(steps, np.cos(along)), half / half.sum())


def _nearest(steps: Array, share: Array) -> Array:
    """Return steps · share rounded to pixels, [B, steps]."""
    pixels: Array = np.ceil(steps * share[:, None] - 0.5).astype(np.int64)
    return pixels
