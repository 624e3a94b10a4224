"""Defocus, motion and zoom blur once more, one image at a time: [H, W, C] float64 in, before the 8-bit cut."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Image = NDArray[np.float64]

STOPS = {
    32: ((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
    64: ((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
    224: ((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
}
"""Where the original's range of zoom factors ends, and its step; rounding lets some ranges reach their end."""


def disk(radius: float, sigma: float) -> Image:
    """Drawn in a square of 17 × 17, or just as large as it is; then a 3 × 3 or 5 × 5 Gaussian of it, mirrored."""
    reach, width = (8, 1) if radius <= 8 else (int(radius), 2)
    inside = [[y * y + x * x <= radius**2 for x in range(-reach, reach + 1)] for y in range(-reach, reach + 1)]
    sharp = np.pad(np.array(inside) / np.sum(inside), width, mode="reflect")
    steps = range(-width, width + 1)
    weights = {(y, x): math.exp(-(y * y + x * x) / (2 * sigma**2)) for y in steps for x in steps}
    smooth, side = np.zeros((2 * reach + 1, 2 * reach + 1)), 2 * reach + 1
    for (y, x), weight in weights.items():
        smooth += weight / sum(weights.values()) * sharp[width + y : width + y + side, width + x : width + x + side]
    return smooth


def defocus(image: Image, radius: float, sigma: float) -> Image:
    kernel = disk(radius, sigma)
    return np.stack([ndimage.correlate(c, kernel, mode="mirror") for c in np.moveaxis(image, -1, 0)], -1)


def motion(image: Image, radius: float, sigma: float, angle: float) -> Image:
    height, width, _ = image.shape
    total, weights = np.zeros_like(image), []
    for i in range(2 * int(radius) + 1):
        weights.append(math.exp(-(i**2) / (2 * sigma**2)))
        dy = math.ceil(i * math.sin(math.radians(angle)) - 0.5)
        dx = math.ceil(i * math.cos(math.radians(angle)) - 0.5)
        rows, columns = np.clip(np.arange(height) + dy, 0, height - 1), np.clip(np.arange(width) + dx, 0, width - 1)
        total += weights[-1] * image[rows][:, columns]
    return total / sum(weights)


def zoomed(image: Image, factor: float) -> Image:
    """The middle of the image, made as large as the image. With mode "constant", which the original leaves at its
    default, scipy makes the last row black at some sizes (36 px at 1.2), by a rounding error; not at 32, 64 or 224 px.
    """
    sides = image.shape[:2]
    crops = [math.ceil(side / factor) for side in sides]
    top, left = ((side - crop) // 2 for side, crop in zip(sides, crops, strict=True))
    middle = image[top : top + crops[0], left : left + crops[1]]
    mode = "constant" if sides in ((32, 32), (64, 64), (224, 224)) else "nearest"
    large = ndimage.zoom(middle, (factor, factor, 1), order=1, mode=mode)
    top, left = ((now - side) // 2 for now, side in zip(large.shape, sides, strict=False))
    return large[top : top + sides[0], left : left + sides[1]]


def zoom(image: Image, stop: float, step: float) -> Image:
    factors = np.arange(1, stop, step)
    return (image + sum(zoomed(image, float(factor)) for factor in factors)) / (len(factors) + 1)
