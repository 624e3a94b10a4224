"""Fog and snow once more, one image at a time and in plain words: [H, W, C] float64 in, before the 8-bit cut."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from helpers.slow_blurs import motion
from helpers.slow_corruptions import cut

Image = NDArray[np.float64]


def plasma(noise: Iterator[float], side: int, decay: float) -> Image:
    """Point by point; the noise is wanted level by level, middles of squares first."""
    heights = np.full((side, side), np.nan)
    heights[0, 0] = 0
    step, wibble = side, 100.0
    while step > 1:
        half = step // 2
        points = [(y, x) for y in range(half, side, step) for x in range(half, side, step)]
        for y, x in points:
            corners = [heights[(y + dy) % side, (x + dx) % side] for dy in (-half, half) for dx in (-half, half)]
            heights[y, x] = sum(corners) / 4 + wibble**2 * next(noise)
        points = [(y, x) for y in range(0, side, half) for x in range(0, side, half) if np.isnan(heights[y, x])]
        for y, x in points:
            around = [heights[(y + d) % side, x] + heights[y, (x + d) % side] for d in (-half, half)]
            heights[y, x] = sum(around) / 4 + wibble**2 * next(noise)
        step, wibble = half, wibble / decay
    return (heights - heights.min()) / (heights.max() - heights.min())


def fog(image: Image, heights: Image, strength: float) -> Image:
    height, width, _ = image.shape
    brightest = image.max()
    return (image + strength * heights[:height, :width, None]) * brightest / (brightest + strength)


def clipped_zoom(layer: Image, factor: float) -> Image:
    """The middle enlarged to the size of the whole."""
    parts = [int(np.ceil(side / factor)) for side in layer.shape]
    tops = [(side - part) // 2 for side, part in zip(layer.shape, parts, strict=True)]
    middle = layer[tops[0] : tops[0] + parts[0], tops[1] : tops[1] + parts[1]]
    large = ndimage.zoom(middle, factor, order=1)
    trims = [(had - side) // 2 for had, side in zip(large.shape, layer.shape, strict=True)]
    return np.asarray(large[trims[0] : trims[0] + layer.shape[0], trims[1] : trims[1] + layer.shape[1]])


def snow(image: Image, noise: Image, angle: float, constants: tuple[float, ...]) -> Image:
    """`noise` [H, W] is standard normal; the angle is in degrees."""
    mean, sigma, factor, threshold, radius, blur, blend = constants
    layer = clipped_zoom(mean + sigma * noise, factor)
    layer[layer < threshold] = 0
    layer = np.rint(motion(cut(layer)[..., None].astype(float), radius, blur, angle)) / 255
    gray = image @ [0.299, 0.587, 0.114] if image.shape[2] == 3 else image[..., 0]
    pale = np.maximum(image, 1.5 * gray[..., None] + 0.5)
    return blend * image + (1 - blend) * pale + layer + np.rot90(layer, 2)
