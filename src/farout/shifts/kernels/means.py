"""Means that are the same on any device, to the last bit."""

from __future__ import annotations

import torch
from torch import Tensor


def exact_means(images: Tensor, unit: int) -> Tensor:
    """Return the mean [B, C, 1, 1] of every channel of images [B, C, H, W], rounded to 1/unit.

    Sums of integers do not depend on the order. The division is on the CPU, since not every device has float64.
    """
    total = images.mul(unit).round_().sum((2, 3), keepdim=True, dtype=torch.int64).cpu()
    mean = total.double().div_(unit * images.shape[2] * images.shape[3])
    return mean.to(images.dtype).to(images.device)
