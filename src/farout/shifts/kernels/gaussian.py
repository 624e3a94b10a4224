"""Gaussian filters with a fixed order of summation, so that an image has the same bytes in any batch."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.compiling import compiled

Array = NDArray[Any]


def gaussian_values(places: Array, sigma: float) -> Array:
    """Return exp(−x²/2σ²)."""
    heights: Array = np.exp(-0.5 * (places / sigma) ** 2)
    return heights


def gaussian(images: Tensor, sigma: float) -> Tensor:
    """Return [..., H, W] filtered by a Gaussian truncated at 4σ, edges repeated: scipy.ndimage with mode "nearest"."""
    weights = gaussian_weights(sigma)
    if len(weights) == 1:
        return images
    if images.device.type == "cpu":
        planes = images.flatten(0, -3).contiguous().numpy()
        return torch.from_numpy(_smoothed(planes, np.array(weights, planes.dtype))).view(images.shape)
    return filter_along(filter_along(images, weights, -2), weights, -1)


def gaussian_weights(sigma: float) -> list[float]:
    """Return the central tap and those on one side; with their mirror images they sum to 1."""
    half = gaussian_values(np.arange(int(4 * sigma + 0.5) + 1), sigma)
    return [float(tap) for tap in half / (2 * half.sum() - half[0])]


def filter_along(images: Tensor, weights: list[float], dim: int) -> Tensor:
    """Apply the symmetric filter with these taps along one dimension, on any device, in the order of `_smoothed`."""
    radius, side = len(weights) - 1, images.shape[dim]
    repeats = [radius if i == images.ndim + dim else -1 for i in range(images.ndim)]
    first, last = images.narrow(dim, 0, 1).expand(repeats), images.narrow(dim, -1, 1).expand(repeats)
    padded = torch.cat([first, images, last], dim)
    total = images * weights[0]
    for step, weight in enumerate(weights[1:], 1):
        total += padded.narrow(dim, radius - step, side).add(padded.narrow(dim, radius + step, side)).mul_(weight)
    return total


@compiled
def _smoothed(planes: Array, weights: Array) -> Array:
    """Return planes [N, H, W] filtered with these taps (central one first), along y, then x; edges are repeated."""
    count, height, width = planes.shape
    reach, out = len(weights) - 1, np.empty_like(planes)
    line = np.empty(width + 2 * reach, planes.dtype)
    for i in range(count):
        for y in range(height):
            _down(planes[i], y, weights, line[reach : reach + width])
            line[:reach], line[reach + width :] = line[reach], line[reach + width - 1]
            _across(line, weights, out[i, y])
    return out


@compiled
def _down(plane: Array, y: int, weights: Array, total: Array) -> None:
    """Write the weighted sum over the lines above and below line y."""
    width, last = len(total), len(plane) - 1
    weight, line = weights[0], plane[y]
    for x in range(width):
        total[x] = line[x] * weight
    for step in range(1, len(weights)):
        weight, above, below = weights[step], plane[max(y - step, 0)], plane[min(y + step, last)]
        for x in range(width):
            total[x] += (above[x] + below[x]) * weight


@compiled
def _across(line: Array, weights: Array, total: Array) -> None:
    """Write the weighted sum over the values left and right of each value of the unpadded line."""
    width, reach = len(total), len(weights) - 1
    weight, middle = weights[0], line[reach : reach + width]
    for x in range(width):
        total[x] = middle[x] * weight
    for step in range(1, len(weights)):
        weight = weights[step]
        left, right = line[reach - step : reach - step + width], line[reach + step : reach + step + width]
        for x in range(width):
            total[x] += (left[x] + right[x]) * weight


def truncation_radius(sigma: float) -> int:
    """Return the radius in pixels of a Gaussian truncated at 3σ."""
    return int(3 * sigma + 0.5)


@functools.lru_cache(maxsize=16)
def gaussian_matrix(side: int, sigma: float, gain: float = 1) -> Array:
    """Return a Gaussian filter truncated at 3σ as a symmetric matrix [side, side].

    The filter is that of scipy.ndimage with mode "reflect" (edges mirrored behind the outermost pixel) and truncate 3,
    times a gain. A filter wider than the image is folded into the matrix, so that it costs no more.
    """
    offsets = np.arange(-truncation_radius(sigma), truncation_radius(sigma) + 1)
    taps = gaussian_values(offsets, sigma)
    places = np.arange(side)[:, None]
    sources = (places + offsets) % (2 * side)
    matrix = np.zeros((side, side))
    np.add.at(matrix, (places, np.minimum(sources, 2 * side - 1 - sources)), gain * taps / taps.sum())
    return matrix.astype(np.float32)
