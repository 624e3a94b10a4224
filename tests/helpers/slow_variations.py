"""Affine and color, one image and one pixel at a time in float64, from their definitions."""

from __future__ import annotations

import colorsys
import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def forward_matrix(degrees: float, right: float, down: float, scale: float, shear: float) -> Floats:
    """Return a moved point, relative to the center, y down: shear along x, rotate, scale, move."""
    a, k = math.radians(degrees), math.tan(math.radians(shear))
    rotation = np.array([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]])
    matrix = np.eye(3)
    matrix[:2, :2] = scale * rotation @ np.array([[1, -k], [0, 1]])
    matrix[:2, 2] = right, down
    return matrix


def source(matrix: Floats, row: int, column: int, height: int, width: int) -> tuple[float, float]:
    """Row and column of the base that a pixel's center comes from."""
    x, y, _ = np.linalg.inv(matrix) @ [column - (width - 1) / 2, row - (height - 1) / 2, 1]
    return y + (height - 1) / 2, x + (width - 1) / 2


def moved(image: Floats, matrix: Floats, interpolation: str) -> tuple[Floats, NDArray[np.bool_]]:
    """The image [C, H, W] moved, and which pixels lie clearly nearer to one pixel of the base than to the next."""
    height, width = image.shape[1:]
    out, clear = np.zeros_like(image), np.ones((height, width), bool)
    for row in range(height):
        for column in range(width):
            y, x = source(matrix, row, column, height, width)
            clear[row, column] = min(abs(y - math.floor(y) - 0.5), abs(x - math.floor(x) - 0.5)) > 1e-4
            for i in range(height):
                for j in (math.floor(x), math.floor(x) + 1):
                    if abs(i - y) < 1 and 0 <= j < width:
                        out[:, row, column] += (
                            weight(i - y, interpolation) * weight(j - x, interpolation) * image[:, i, j]
                        )
    return out, clear


def weight(distance: float, interpolation: str) -> float:
    """What a pixel so far away counts."""
    return max(0.0, 1 - abs(distance)) if interpolation == "bilinear" else float(abs(distance) < 0.5)


def recolored(image: Floats, brightness: float, contrast: float, saturation: float, hue: float) -> Floats:
    """The image [C, H, W] with brightness, contrast, saturation and hue changed, in this order."""
    image = np.clip(image * brightness, 0, 1)
    image = np.clip(contrast * image + (1 - contrast) * gray(image).mean(), 0, 1)
    if len(image) == 1:
        return image
    image = np.clip(saturation * image + (1 - saturation) * gray(image), 0, 1)
    out = np.empty_like(image)
    for row, column in np.ndindex(*image.shape[1:]):
        h, s, v = colorsys.rgb_to_hsv(*image[:, row, column])
        out[:, row, column] = colorsys.hsv_to_rgb((h + hue) % 1.0, s, v)
    return out


def gray(image: Floats) -> Floats:
    """One number per pixel."""
    return image[0] if len(image) == 1 else 0.2989 * image[0] + 0.587 * image[1] + 0.114 * image[2]
