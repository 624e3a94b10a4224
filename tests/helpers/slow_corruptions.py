"""The corruptions once more, one image at a time and in plain words: [H, W, C] float64 in, before the 8-bit cut.

Written from the definitions with numpy, scipy and colorsys, to compare the fast ones with.
"""

from __future__ import annotations

import colorsys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Image = NDArray[np.float64]


def cut(image: Image) -> NDArray[np.uint8]:
    """8-bit levels, truncated."""
    return (np.clip(image, 0, 1) * 255).astype(np.uint8)


def blur(image: Image, sigma: float) -> Image:
    channels = [ndimage.gaussian_filter(c, sigma, mode="nearest", truncate=4) for c in np.moveaxis(image, -1, 0)]
    return np.stack(channels, -1)


def contrast(image: Image, gain: float) -> Image:
    mean = image.reshape(-1, image.shape[2]).mean(0)
    return mean + gain * (image - mean)


def in_hsv(image: Image, change: Callable[[float, float, float], tuple[float, float, float]]) -> Image:
    pixels = [colorsys.hsv_to_rgb(*change(*colorsys.rgb_to_hsv(*pixel))) for pixel in image.reshape(-1, 3)]
    return np.array(pixels).reshape(image.shape)


def brightness(image: Image, gain: float) -> Image:
    return in_hsv(image, lambda h, s, v: (h, s, min(v + gain, 1)))


def saturate(image: Image, gain: float, offset: float) -> Image:
    return in_hsv(image, lambda h, s, v: (h, min(max(s * gain + offset, 0), 1), v))


def gaussian_noise(image: Image, rng: np.random.Generator, sigma: float) -> Image:
    return image + rng.normal(0, sigma, image.shape)


def speckle_noise(image: Image, rng: np.random.Generator, sigma: float) -> Image:
    return image + image * rng.normal(0, sigma, image.shape)


def shot_noise(image: Image, rng: np.random.Generator, photons: float) -> Image:
    return rng.poisson(image * photons) / photons


def impulse_noise(image: Image, rng: np.random.Generator, share: float) -> Image:
    hit, salt = rng.random(image.shape) < share, rng.random(image.shape) < 0.5
    return np.where(hit, salt.astype(float), image)


def glass_blur(image: Image, offsets: NDArray[np.int64], sigma: float, reach: int) -> Image:
    """`offsets` [rounds, 2, rows, columns], dy and dx."""
    pixels = cut(blur(image, sigma) + 1e-7)
    height, width, _ = image.shape
    for step in offsets:
        for y in range(height - reach, reach, -1):
            for x in range(width - reach, reach, -1):
                dy, dx = step[:, y - reach - 1, x - reach - 1]
                pixels[y, x] = pixels[y + dy, x + dx]
    return blur(pixels / 255, sigma)


def liquid(noise: Image, mean: float, sigma: float, blurred: float) -> Image:
    return ndimage.gaussian_filter(mean + sigma * noise, blurred, mode="nearest", truncate=4)


def mud(image: Image, layer: Image, threshold: float, blurred: float) -> Image:
    mask = ndimage.gaussian_filter((layer > threshold) * 1.0, blurred, mode="nearest", truncate=4)[..., None]
    mask = np.where(mask < 0.8, 0, mask)
    return image * (1 - mask) + mask * np.array([63, 42, 20]) / 255


def water(image: Image, layer: Image, threshold: float, strength: float) -> Image:
    levels = (np.where(layer < threshold, 0, layer) * 255).astype(np.int64) % 256
    shine = levels * relief(levels)
    return image + strength * shine[..., None] / shine.max() * np.array([175, 238, 238]) / 255


def relief(levels: NDArray[np.int64]) -> Image:
    near = ndimage.uniform_filter(np.minimum(chamfer(canny(levels)), 20), 3, mode="mirror")
    flat = equalized(np.floor(near + 1e-9).astype(int))
    lit = ndimage.correlate(flat, np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]), mode="mirror").clip(0, 255)
    return np.rint(ndimage.correlate(lit, np.ones((3, 3), int), mode="mirror") / 9)


def canny(levels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Thresholds 50 and 150 on |dx| + |dy|."""
    dy, dx = (ndimage.sobel(levels, axis, mode="nearest") for axis in (0, 1))
    norm = np.abs(dx) + np.abs(dy)
    around = np.pad(norm, 1)
    crest = np.zeros(norm.shape, bool)
    for y, x in np.argwhere(norm > 50):
        slope = np.inf if dx[y, x] == 0 else abs(dy[y, x] / dx[y, x])
        if slope < np.tan(np.pi / 8):
            before, after = around[y + 1, x], around[y + 1, x + 2]
        elif slope > np.tan(3 * np.pi / 8):
            before, after = around[y, x + 1], around[y + 2, x + 1]
        else:
            side = 1 if (dx[y, x] >= 0) == (dy[y, x] >= 0) else -1
            before, after = around[y, x + 1 - side], around[y + 2, x + 1 + side] + 1  # no ties here
        crest[y, x] = before < norm[y, x] >= after
    parts, _ = ndimage.label(crest, np.ones((3, 3)))
    strong = np.unique(parts[crest & (norm > 150)])
    return np.isin(parts, strong) & crest


def chamfer(edges: NDArray[np.bool_]) -> Image:
    """Length of the shortest way of straight, diagonal and knight's steps to an edge, by its closed form."""
    straight, diagonal, knight = 65536, 91750, 143976
    height, width = edges.shape
    rows, columns = np.abs(np.mgrid[1 - height : height, 1 - width : width])
    far, near = np.maximum(rows, columns), np.minimum(rows, columns)
    flat = near * knight + (far - 2 * near) * straight
    steep = (far - near) * knight + (2 * near - far) * diagonal
    way = np.where(far >= 2 * near, flat, steep)
    nearest = np.full(edges.shape, np.inf)
    for y, x in np.argwhere(edges):
        here = way[height - 1 - y : 2 * height - 1 - y, width - 1 - x : 2 * width - 1 - x]
        nearest = np.minimum(nearest, here)
    return nearest / 65536


def equalized(levels: NDArray[np.int64]) -> NDArray[np.int64]:
    lowest = (levels == levels.min()).sum()
    if lowest == levels.size:
        return levels
    at_or_below = np.array([(levels <= level).sum() for level in range(256)])
    scale = np.float32(255) / np.float32(levels.size - lowest)
    return np.rint((at_or_below - lowest).astype(np.float32) * scale).astype(int)[levels]
