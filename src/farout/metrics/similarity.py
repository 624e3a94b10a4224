"""Similarity of pairs of images: SSIM, and LPIPS of the package `lpips`; `mean_interval` gives means of both."""

from __future__ import annotations

import importlib
import importlib.util
from functools import lru_cache
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from farout.optional import mend_torchvision

Trunk = Literal["alex", "vgg", "squeeze"]

WINDOW, SIGMA = 11, 1.5
"""Side and standard deviation of the Gaussian window (Wang et al. 2004, section III.C)."""
C1, C2 = 0.01**2, 0.03**2
"""(K1 L)² and (K2 L)² for values in [0, 1] (Wang et al. 2004, section III.B and III.C)."""


@torch.no_grad()
def ssim(a: Tensor, b: Tensor) -> Tensor:
    """Return the mean structural similarity [B], float64, of images in [0, 1] (Wang et al. 2004, eq. 13 to 17).

    Images are [B, C, H, W], whose channels are averaged, or maps [B, H, W].
    Only windows inside the image count, as in the authors' code. scikit-image gives the same value with
    `structural_similarity(a, b, data_range=1, gaussian_weights=True, sigma=1.5, use_sample_covariance=False)`: it
    mirrors the edges and excludes a border of 5 pixels from the mean. torchmetrics includes the border, so its mean
    differs; its full map without these 5 pixels is the same.
    For images smaller than the window, the largest odd window that fits is used, with the same standard deviation.
    """
    _check(a, b)
    if a.ndim == 4:
        return ssim(a.flatten(0, 1), b.flatten(0, 1)).view(a.shape[:2]).mean(1)
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
    for images in (a, b):
        if not isinstance(images, Tensor):
            raise TypeError(f"expected two tensors of images [B, C, H, W], got {type(images).__name__}")
    if a.ndim not in (3, 4) or a.shape != b.shape or not a.shape[1:].numel():
        raise ValueError(
            "expected two batches of images [B, C, H, W] or maps [B, H, W] of one shape, got shapes "
            f"{list(a.shape)} and {list(b.shape)}"
        )
    for images in (a, b):
        if not images.is_floating_point():
            raise TypeError(f"expected floats in [0, 1], got {images.dtype}")
        if not ((images >= 0) & (images <= 1)).all():
            raise ValueError(f"expected values in [0, 1], got values from {images.min():.4g} to {images.max():.4g}")


@torch.no_grad()
def lpips(a: Tensor, b: Tensor, *, net: Trunk = "vgg") -> Tensor:
    """Return the LPIPS distance [B], float64, of images [B, C, H, W] in [0, 1] (Zhang et al. 2018, eq. 1).

    Of the package `lpips`, version 0.1, with its learned weights: pip install "farout[lpips]". net: the network whose
    features are compared, which the package downloads once. A distance over any other network, without learned
    weights, is `farout.generators.perceptual.perceptual_distance`.
    """
    _check(a, b)
    if a.ndim != 4 or a.shape[1] not in (1, 3):
        raise ValueError(f"expected images [B, C, H, W] with 1 or 3 channels, got shape {list(a.shape)}")
    module = lpips_module(net)
    device = next(module.parameters()).device
    pair = (images.to(device, torch.float32).expand(-1, 3, -1, -1) for images in (a, b))
    distances: Tensor = module(*pair, normalize=True)
    return distances.flatten().double().to(a.device)


@lru_cache(maxsize=1)
def lpips_module(net: Trunk = "vgg") -> Any:
    """Return the LPIPS module of the package `lpips`, in evaluation mode. Raise with advice if it cannot be had."""
    try:
        if importlib.util.find_spec("torchvision"):
            mend_torchvision()
        package = importlib.import_module("lpips")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'LPIPS needs the package lpips, but {error.name} is not installed: pip install "farout[lpips]"'
        ) from error
    try:
        return package.LPIPS(net=net, verbose=False).eval().requires_grad_(False)
    except OSError as error:
        reason = f"{type(error).__name__}: {error}".split("\n")[0]
        raise ConnectionError(
            f"the ImageNet weights of {net} that LPIPS reads could not be fetched ({reason}). Connect once, so that "
            "they are kept in torch's cache, or compare features of another network"
        ) from error
