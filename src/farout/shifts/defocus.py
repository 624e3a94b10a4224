"""Defocus blur."""

from __future__ import annotations

import functools

import numpy as np
from scipy import ndimage
from torch import Tensor

from farout.core import Params
from farout.shifts.catalog import register
from farout.shifts.corruption import Corruption
from farout.shifts.tables import Row
from farout.shifts.taps import NOTHING, Array, correlate

ROOM = 8
"""Disks up to this radius are drawn in a square that reaches so far."""


@register
class DefocusBlur(Corruption):
    """The lens is out of focus: every point becomes a disk."""

    name = "defocus_blur"
    random = False

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        radius, sigma = constants
        return correlate(images, disk(radius, sigma))


@functools.lru_cache(maxsize=64)
def disk(radius: float, sigma: float) -> Array:
    """A disk of sum 1, its edge smoothed by a Gaussian of 3 taps, or of 5 where the radius is above 8.

    As in the original, the smoothing mirrors the square in which the disk is drawn at its outermost pixels. Where the
    disk reaches them (radius 8 and 10) the sum grows by about 1 %: such images turn a little brighter.
    """
    reach, width = (ROOM, 1) if radius <= ROOM else (int(radius), 2)
    far = np.arange(-reach, reach + 1) ** 2
    inside = (far[:, None] + far <= radius**2).astype(np.float64)
    taps = np.exp(-0.5 * (np.arange(-width, width + 1) / sigma) ** 2)
    smooth: Array = inside / inside.sum()
    for axis in (0, 1):
        smooth = ndimage.correlate1d(smooth, taps / taps.sum(), axis, mode="mirror")
    return _trimmed(smooth)


def _trimmed(kernel: Array) -> Array:
    """Without what is nothing around it."""
    places = np.flatnonzero(kernel[len(kernel) // 2] >= NOTHING)
    middle = slice(places[0], places[-1] + 1)
    return kernel[middle, middle]
