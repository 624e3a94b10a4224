"""Means that are the same to the last bit on any device."""

from __future__ import annotations

import torch
from torch import Tensor


def exact_means(images: Tensor, unit: int) -> Tensor:
    """The mean [B, C, 1, 1] of every channel of images [B, C, H, W], read to the nearest 1/unit.

    Whole numbers add up to the same sum in any order. It is divided on the CPU, for not every device has float64.
    """
    total = images.mul(unit).round_().sum((2, 3), keepdim=True, dtype=torch.int64).cpu()
    mean = total.double().div_(unit * images.shape[2] * images.shape[3])
    return mean.to(images.dtype).to(images.device)
