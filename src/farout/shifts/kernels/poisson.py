"""Poisson quantiles of uniform numbers, so that shot noise can be sampled independently of the image."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import pdtr
from torch import Tensor

from farout.compiling import compiled

Array = NDArray[Any]

SMALLEST = 2.0**-25
"""Replacement of the uniform number 0, whose quantile would lie many σ below all others."""
BINS = 1024


def poisson(images: Tensor, uniform: Tensor, photons: float) -> Tensor:
    """Return the quantile of Poisson(photons · x) at u in (0, 1), for 8-bit x: the smallest k with CDF(k) ≥ u."""
    counts = torch.empty(images.shape)
    pixels, shares = (part.contiguous().view(-1).cpu().numpy() for part in (images, uniform))
    _quantiles(pixels, shares, *_tables(photons), counts.view(-1).numpy())
    return counts.to(images.device)


@compiled
def _quantiles(images: Array, uniform: Array, cdf: Array, guide: Array, counts: Array) -> None:
    for i in range(len(images)):
        level = int(images[i] * np.float32(255) + np.float32(0.5))
        count = guide[level, int(uniform[i] * np.float32(BINS))]
        while uniform[i] > cdf[level, count]:
            count += 1
        counts[i] = count


@lru_cache(maxsize=32)
def _tables(photons: float) -> tuple[Array, Array]:
    """Return the CDF of all 256 rates, [256, K], and the quantile at the start of each bin of u, [256, BINS]."""
    most = int(photons + 8 * photons**0.5 + 20)
    cdf = pdtr(np.arange(most)[None], photons * np.arange(256)[:, None] / 255).astype(np.float32)
    cdf[:, -1] = 1
    starts = np.maximum(np.arange(BINS) / BINS, SMALLEST).astype(np.float32)
    guide = np.stack([np.searchsorted(row, starts) for row in cdf])
    return cdf, guide.astype(np.int16)
