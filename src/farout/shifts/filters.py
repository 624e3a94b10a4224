"""Filters that give every image the same bytes in any batch: products are added tap by tap, always in one order."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from farout.shifts.smoothing import smoothed


def gaussian(images: Tensor, sigma: float) -> Tensor:
    """Gaussian filter of [..., H, W] cut off at 4σ, edges repeated: that of scipy.ndimage with mode "nearest"."""
    weights = gaussian_weights(sigma)
    if len(weights) == 1:
        return images
    if images.device.type == "cpu":
        planes = images.flatten(0, -3).contiguous().numpy()
        return torch.from_numpy(smoothed(planes, np.array(weights, planes.dtype))).view(images.shape)
    return along(along(images, weights, -2), weights, -1)


def gaussian_weights(sigma: float) -> list[float]:
    """The middle tap and those on one side of it; with their mirror images they add up to 1."""
    radius = int(4 * sigma + 0.5)
    half = np.exp(-0.5 * (np.arange(radius + 1) / sigma) ** 2)
    return [float(tap) for tap in half / (2 * half.sum() - half[0])]


def along(images: Tensor, weights: list[float], dim: int) -> Tensor:
    """The symmetric filter with these taps along one dimension, on any device."""
    radius, side = len(weights) - 1, images.shape[dim]
    repeats = [radius if i == images.ndim + dim else -1 for i in range(images.ndim)]
    first, last = images.narrow(dim, 0, 1).expand(repeats), images.narrow(dim, -1, 1).expand(repeats)
    padded = torch.cat([first, images, last], dim)
    total = images * weights[0]
    for step, weight in enumerate(weights[1:], 1):
        total += padded.narrow(dim, radius - step, side).add(padded.narrow(dim, radius + step, side)).mul_(weight)
    return total
