"""Thumbnails that are stored beside scores, for the report."""

from __future__ import annotations

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

EXAMPLES = 8
"""Images stored of each kind: the lowest scores, the highest, …"""
SIDE = 64


def thumbnails(images: Tensor) -> NDArray[np.uint8]:
    """Return images [N, C, H, W] in [0, 1] as 8-bit [N, H, W, C], scaled down to at most `SIDE` px high and wide."""
    longest = max(images.shape[2:])
    if longest > SIDE:
        size = [max(1, side * SIDE // longest) for side in images.shape[2:]]
        images = F.interpolate(images, size, mode="bilinear", antialias=True)
    small: NDArray[np.uint8] = images.mul(255).round().clamp(0, 255).byte().permute(0, 2, 3, 1).cpu().numpy()
    return small
