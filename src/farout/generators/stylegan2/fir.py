"""Low-pass resampling of StyleGAN2: the separable filter [1, 3, 3, 1] around every change of resolution."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

TAPS = (1.0, 3.0, 3.0, 1.0)


def kernel(like: Tensor) -> Tensor:
    """Return the depthwise filter [C, 1, 4, 4] for images [B, C, H, W]; its values sum to 1."""
    taps = torch.tensor(TAPS, dtype=like.dtype, device=like.device)
    taps = taps / taps.sum()
    return torch.outer(taps, taps).expand(like.shape[1], 1, -1, -1)


def blur(images: Tensor, padding: int) -> Tensor:
    """Return filtered images, with zeros added on all sides first: the side grows by 2 · padding − 3."""
    return F.conv2d(images, kernel(images), padding=padding, groups=images.shape[1])


def upsample(images: Tensor) -> Tensor:
    """Return images of twice the side: zeros between pixels, padding (2, 1), filter × 4.

    The transposed convolution with padding 1 is the same sum without the zeros.
    """
    return F.conv_transpose2d(images, 4 * kernel(images), stride=2, padding=1, groups=images.shape[1])


def downsample(images: Tensor) -> Tensor:
    """Return images of half the side: padding (1, 1), filter, every second pixel."""
    return F.conv2d(images, kernel(images), stride=2, padding=1, groups=images.shape[1])
