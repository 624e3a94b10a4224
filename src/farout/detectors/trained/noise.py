"""Noise as outliers (Hein et al. 2019, section 4): permuted pixels and uniform noise, smoothed."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from farout.shifts.kernels.gaussian import filter_along, gaussian_values

RADIUS = 7
"""Pixels on each side of the center of the filter: 15×15."""
SIGMA = (1.0, 2.5)
"""Range of the filter's standard deviation."""


def noise_like(images: Tensor, generator: torch.Generator) -> Tensor:
    """Return as many images of noise: half are images with permuted pixels, half are uniform noise.

    All are smoothed by a Gaussian filter of the same random width, and each is rescaled to fill [0, 1].
    """
    half = len(images) // 2
    uniform = torch.rand(images[half:].shape, generator=generator).to(images)
    noise = torch.cat([permuted(images[:half], generator), uniform])
    low, high = SIGMA
    noise = low_pass(noise, low + (high - low) * float(torch.rand((), generator=generator)))
    least, most = noise.amin((1, 2, 3), keepdim=True), noise.amax((1, 2, 3), keepdim=True)
    return (noise - least) / (most - least).clamp(min=1e-12)


def permuted(images: Tensor, generator: torch.Generator) -> Tensor:
    """Return images with their pixels in random order, another one for each; the color of a pixel is kept."""
    flat = images.flatten(2)
    order = torch.rand(len(images), flat.shape[2], generator=generator).argsort(1).to(images.device)
    return flat.gather(2, order[:, None].expand_as(flat)).view(images.shape)


def low_pass(images: Tensor, sigma: float) -> Tensor:
    """Return images filtered by a Gaussian of 15×15 pixels; edges are repeated."""
    taps = gaussian_values(np.arange(RADIUS + 1), sigma)
    weights = (taps / (2 * taps.sum() - taps[0])).tolist()
    return filter_along(filter_along(images, weights, -2), weights, -1)
