"""Structural similarity of two maps."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

WINDOW, SIGMA = 11, 1.5
"""Side and standard deviation of the Gaussian window (Wang et al. 2004, section III.C)."""
C1, C2 = 0.01**2, 0.03**2
"""(K1 L)² and (K2 L)² for values in [0, 1] (Wang et al. 2004, section III.B and III.C)."""


@torch.no_grad()
def ssim(a: Tensor, b: Tensor) -> Tensor:
    """Return the mean structural similarity [B], float64, of maps [B, H, W] in [0, 1] (Wang et al. 2004, eq. 13 to 17).

    Only windows inside the map count, as in the authors' code. scikit-image gives the same value with
    `structural_similarity(a, b, data_range=1, gaussian_weights=True, sigma=1.5, use_sample_covariance=False)`: it
    mirrors the edges and excludes a border of 5 pixels from the mean. torchmetrics includes the border, so its mean
    differs; its full map without these 5 pixels is the same.
    For maps smaller than the window, the largest odd window that fits is used, with the same standard deviation.
    """
    _check(a, b)
    a, b = a.double(), b.double()
    moments = _window_means(torch.stack([a, b, a * a, b * b, a * b], 1))
    mean_a, mean_b = moments[:, 0], moments[:, 1]
    variances = moments[:, 2] - mean_a**2 + moments[:, 3] - mean_b**2
    covariance = moments[:, 4] - mean_a * mean_b
    similarity = (2 * mean_a * mean_b + C1) * (2 * covariance + C2)
    return (similarity / ((mean_a**2 + mean_b**2 + C1) * (variances + C2))).mean((1, 2))


def _window_means(maps: Tensor) -> Tensor:
    """Return weighted means [B, K, H', W'] over all windows inside the maps [B, K, H, W]."""
    side = min(WINDOW, *maps.shape[2:])
    side -= 1 - side % 2
    offsets = torch.arange(side, dtype=maps.dtype, device=maps.device) - side // 2
    weights = torch.exp(-(offsets**2) / (2 * SIGMA**2))
    weights = (weights / weights.sum()).expand(maps.shape[1], 1, 1, side)
    rows = F.conv2d(maps, weights, groups=maps.shape[1])
    return F.conv2d(rows, weights.transpose(2, 3), groups=maps.shape[1])


def _check(a: Tensor, b: Tensor) -> None:
    if a.ndim != 3 or a.shape != b.shape or not a.shape[1:].numel():
        raise ValueError(f"expected two batches of maps [B, H, W], got shapes {list(a.shape)} and {list(b.shape)}")
    for maps in (a, b):
        if not maps.is_floating_point():
            raise TypeError(f"expected float maps in [0, 1], got {maps.dtype}")
        if not ((maps >= 0) & (maps <= 1)).all():
            raise ValueError(f"expected maps in [0, 1], got values from {maps.min():.4g} to {maps.max():.4g}")
