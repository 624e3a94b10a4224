"""Poisson numbers from uniform ones, so that shot noise is drawn before the image is seen."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from scipy.special import pdtr
from torch import Tensor

SMALLEST = 2.0**-25
"""What stands for a uniform number of 0, whose quantile would lie many σ below all others."""
BINS = 1024


def poisson(images: Tensor, uniform: Tensor, photons: float) -> Tensor:
    """The quantile of Poisson(photons · x) at a number in (0, 1), for 8-bit values x: the least k with CDF(k) ≥ u."""
    cdf, guide = (table.to(images.device) for table in _tables(photons))
    uniform, levels = uniform.reshape(-1), images.mul(255).round_().int().reshape(-1)
    counts = guide.view(-1).index_select(0, levels * BINS + uniform.mul(BINS).int())
    cells, cdf_cells = levels.mul_(cdf.shape[1]).add_(counts), cdf.view(-1)
    waiting = (uniform > cdf_cells.index_select(0, cells)).nonzero().view(-1)
    while len(waiting):
        counts[waiting] += 1
        cells[waiting] += 1
        waiting = waiting[uniform[waiting] > cdf_cells[cells[waiting]]]
    return counts.to(images.dtype).view(images.shape)


@lru_cache(maxsize=32)
def _tables(photons: float) -> tuple[Tensor, Tensor]:
    """CDF of each of the 256 rates, [256, K]; the quantile where each of `BINS` steps of u begins, [256, BINS]."""
    most = int(photons + 8 * photons**0.5 + 20)
    cdf = pdtr(np.arange(most)[None], photons * np.arange(256)[:, None] / 255).astype(np.float32)
    cdf[:, -1] = 1
    starts = np.maximum(np.arange(BINS) / BINS, SMALLEST).astype(np.float32)
    guide = np.stack([np.searchsorted(row, starts) for row in cdf])
    return torch.from_numpy(cdf), torch.from_numpy(guide.astype(np.int32))
