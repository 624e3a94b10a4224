"""Row sums of Gram matrices, compiled: the output is read once from memory, and again from the processor's cache."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def row_sums(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return Σ_places x^p Σ_channels x^p of every image, power and channel: [B, 5, C], from [B, places, C]."""
    images, places, channels = rows.shape
    sums = np.zeros((images, 5, channels))
    for image in range(images):
        for place in range(places):
            s1 = s2 = s3 = s4 = s5 = 0.0
            for channel in range(channels):
                x = np.float64(rows[image, place, channel])
                x2 = x * x
                s1 += x
                s2 += x2
                s3 += x2 * x
                s4 += x2 * x2
                s5 += x2 * x2 * x
            for channel in range(channels):
                x = np.float64(rows[image, place, channel])
                x2 = x * x
                sums[image, 0, channel] += x * s1
                sums[image, 1, channel] += x2 * s2
                sums[image, 2, channel] += x2 * x * s3
                sums[image, 3, channel] += x2 * x2 * s4
                sums[image, 4, channel] += x2 * x2 * x * s5
    return sums
