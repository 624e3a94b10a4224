"""The disk that a point becomes where the lens is out of focus."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from farout.shifts.kernels.gaussian import bell
from farout.shifts.kernels.taps import NOTHING

Array = NDArray[Any]

ROOM = 8
"""Disks up to this radius are drawn in a square that reaches so far."""


@functools.lru_cache(maxsize=64)
def disk(radius: float, sigma: float) -> Array:
    """A disk of sum 1, its edge smoothed by a Gaussian of 3 taps, or of 5 where the radius is above 8.

    As in the original, the smoothing mirrors the square in which the disk is drawn at its outermost pixels. Where the
    disk reaches them (radius 8 and 10) the sum grows by about 1 %: such images turn a little brighter.
    """
    reach, width = (ROOM, 1) if radius <= ROOM else (int(radius), 2)
    far = np.arange(-reach, reach + 1) ** 2
    inside = (far[:, None] + far <= radius**2).astype(np.float64)
    taps = bell(np.arange(-width, width + 1), sigma)
    smooth: Array = inside / inside.sum()
    for axis in (0, 1):
        smooth = ndimage.correlate1d(smooth, taps / taps.sum(), axis, mode="mirror")
    return _trimmed(smooth)


def _trimmed(kernel: Array) -> Array:
    """Without what is nothing around it."""
    places = np.flatnonzero(kernel[len(kernel) // 2] >= NOTHING)
    middle = slice(places[0], places[-1] + 1)
    return kernel[middle, middle]
