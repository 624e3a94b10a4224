"""Compiled form of `recolor_images` in recolored.py: reads an image twice and writes it once, without buffers."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

Plane = NDArray[np.float32]

GRAY = (0.2989, 0.587, 0.114)
"""Weights of red, green and blue in gray, as in torchvision."""
LEAST = 1e-12
"""Colors whose channels differ by less are gray."""

FAST = {"reassoc", "contract", "nsz"}
ZERO, ONE, TWO, THREE, FOUR, SIX = map(np.float32, (0, 1, 2, 3, 4, 6))
RED, GREEN, BLUE = map(np.float32, GRAY)
FLAT = np.float32(LEAST)


def blend(images: Tensor, others: Tensor, share: Tensor) -> Tensor:
    """Blend the images with the others: share · images + (1 − share) · others; a share above 1 extrapolates."""
    return (share * images + (1 - share) * others).clamp(0, 1)


@njit(cache=True, nogil=True, fastmath=FAST)
def recolor(images: Plane, factors: Plane, out: Plane) -> None:
    """Write the images [B, 3, H·W] with brightness, contrast, saturation and hue [B, 4] changed to `out`."""
    for image in range(len(images)):
        red, green, blue = images[image, 0], images[image, 1], images[image, 2]
        brightness, contrast = factors[image, 0], factors[image, 1]
        offset = (ONE - contrast) * _mean(red, green, blue, brightness)
        _recolor(red, green, blue, brightness, contrast, offset, factors[image, 2], SIX * factors[image, 3], out[image])


@njit(cache=True, nogil=True, fastmath=FAST)
def _unit(x: np.float32) -> np.float32:
    return min(max(x, ZERO), ONE)


@njit(cache=True, nogil=True, fastmath=FAST)
def _gray(red: np.float32, green: np.float32, blue: np.float32) -> np.float32:
    return RED * red + GREEN * green + BLUE * blue


@njit(cache=True, nogil=True, fastmath=FAST)
def _mean(red: Plane, green: Plane, blue: Plane, brightness: np.float32) -> np.float32:
    """Return the mean gray value of a brightened image."""
    total = np.float64(0)
    for p in range(red.size):
        total += _gray(_unit(brightness * red[p]), _unit(brightness * green[p]), _unit(brightness * blue[p]))
    return np.float32(total / red.size)


@njit(cache=True, nogil=True, fastmath=FAST)
def _recolor(
    red: Plane,
    green: Plane,
    blue: Plane,
    brightness: np.float32,
    contrast: np.float32,
    offset: np.float32,
    saturation: np.float32,
    sixths: np.float32,
    out: Plane,
) -> None:
    """Apply all four changes to one image. The loop has no branches or calls, so that it is vectorized."""
    new_red, new_green, new_blue = out[0], out[1], out[2]
    for p in range(red.size):
        r = _unit(contrast * _unit(brightness * red[p]) + offset)
        g = _unit(contrast * _unit(brightness * green[p]) + offset)
        b = _unit(contrast * _unit(brightness * blue[p]) + offset)
        gray = (ONE - saturation) * _gray(r, g, b)
        r, g, b = _unit(saturation * r + gray), _unit(saturation * g + gray), _unit(saturation * b + gray)
        low, high = min(min(r, g), b), max(max(r, g), b)
        chroma = high - low
        per_chroma = ONE / max(chroma, FLAT)
        from_red, from_green, from_blue = (g - b) * per_chroma, (b - r) * per_chroma + TWO, (r - g) * per_chroma + FOUR
        hue = from_green if high == g else from_blue
        hue = sixths + (from_red if high == r else hue)  # from −4 to 8
        hue = hue + SIX if hue < ZERO else hue
        hue = hue - SIX if hue >= SIX else hue
        new_red[p] = low + chroma * _unit(abs(hue - THREE) - ONE)
        new_green[p] = low + chroma * _unit(TWO - abs(hue - TWO))
        new_blue[p] = low + chroma * _unit(TWO - abs(hue - FOUR))
