"""Procedural frost: tinted power-law noise with the statistics of photographs of frost."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from farout import rng
from farout.shifts.tables import nearest_size
from farout.shifts.textures.frost_sheets import Sheets

Color = tuple[float, float, float]
Array = NDArray[Any]


class Statistics(NamedTuple):
    """Statistics of crops of a texture at one size."""

    mean: Color
    """Mean of red, green and blue."""
    std: float
    """Standard deviation within a crop."""
    slope: float
    """Slope of the spectrum: power is proportional to frequency to this power."""


class Texture(NamedTuple):
    """Statistics of a photograph of frost: in crops of 32 px of the photograph scaled by a fifth, and of 224 px."""

    weight: float
    """Fraction of the crops in the published sets."""
    small: Statistics
    large: Statistics
    correlation: float
    """Correlation of red and blue within a crop."""


TEXTURES = (
    Texture(0.2, Statistics((78, 149, 166), 14, -1.1), Statistics((78, 149, 166), 16, -1.5), 0.5),
    Texture(0.4, Statistics((201, 205, 214), 18, -0.8), Statistics((201, 205, 214), 20, -1.9), 0.99),
    Texture(0.2, Statistics((144, 159, 171), 26, -0.4), Statistics((138, 153, 166), 27, -1.5), 0.99),
    Texture(0.2, Statistics((101, 113, 124), 34, -1.1), Statistics((112, 123, 135), 36, -1.8), 1.0),
)
VARYING = 10.0
"""Standard deviation of the mean of a crop, in levels."""
SMALLEST = 256
"""Minimum period of a sheet; it is also at least twice the side of a crop."""


def statistics(texture: Texture, crop: int) -> Statistics:
    """Return the statistics in crops of 32, 64 or 224 px; at 64 px the mean of the others, as for photographs."""
    share = {32: 0.0, 64: 0.5, 224: 1.0}[crop]
    numbers = zip(_flat(texture.small), _flat(texture.large), strict=True)
    red, green, blue, std, slope = (small + share * (large - small) for small, large in numbers)
    return Statistics((red, green, blue), std, slope)


def _flat(of: Statistics) -> tuple[float, ...]:
    return (*of.mean, of.std, of.slope)


@functools.lru_cache(maxsize=8)
def build_sheets(height: int, width: int) -> Sheets:
    """Return the sheets of frost for images of this size, which are fixed and periodic."""
    sheets = [_sheet(number, height, width) for number in range(len(TEXTURES))]
    levels = torch.from_numpy(np.stack([sheet for sheet, _ in sheets]))
    return Sheets(
        levels,
        torch.tensor(levels.shape[2:]).expand(len(sheets), 2),
        torch.tensor([texture.weight for texture in TEXTURES]).cumsum(0),
        torch.tensor([varying for _, varying in sheets]),
    )


def _sheet(number: int, height: int, width: int) -> tuple[Array, float]:
    """Return one texture [3, H, W] in integer levels, and the missing standard deviation of the means of its crops.

    Red and blue are a common part minus and plus another; both parts have variance 1 within a crop of 32, 64 or 224 px.
    """
    texture, crop = TEXTURES[number], nearest_size(min(height, width))
    mean, std, slope = statistics(texture, crop)
    side = max(SMALLEST, 2 ** (max(height, width, 2 * crop) - 1).bit_length())
    draws = rng.numpy_generator(0, "frost", number, side)
    (common, varies), (other, _) = (_normalize_crops(power_law(draws, side, slope), crop) for _ in range(2))
    same, apart = np.sqrt((1 + texture.correlation) / 2), np.sqrt((1 - texture.correlation) / 2)
    parts = np.stack([same * common - apart * other, common, same * common + apart * other])
    levels = np.rint(np.array(mean)[:, None, None] + std * parts).astype(np.float32)
    lacking = max(0.0, VARYING**2 - (std * varies) ** 2) ** 0.5
    return np.pad(levels, [(0, 0), (0, height - 1), (0, width - 1)], mode="wrap"), lacking


def power_law(draws: np.random.Generator, side: int, slope: float) -> Array:
    """Return periodic noise [side, side] whose power is proportional to frequency to the power `slope`."""
    frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side))
    frequency[0, 0] = np.inf
    spectrum = np.fft.rfft2(draws.standard_normal((side, side))) * frequency ** (slope / 2)
    return np.fft.irfft2(spectrum, (side, side))


def _normalize_crops(noise: Array, crop: int) -> tuple[Array, float]:
    """Return the noise scaled to mean variance 1 within crops of this side, and the deviation of their means."""
    from scipy import ndimage

    means = ndimage.uniform_filter(noise, crop, mode="wrap")
    scale = 1 / np.sqrt(noise.var() - means.var())
    return noise * scale, float(means.std() * scale)
