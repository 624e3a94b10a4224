"""Small pictures that are kept beside scores, for the report."""

from __future__ import annotations

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

EXAMPLES = 8
"""Images kept of each kind: the lowest scores, the highest, …"""
SIDE = 64


def thumbnails(images: Tensor) -> NDArray[np.uint8]:
    """Images [N, C, H, W] in [0, 1] at most `SIDE` px high and wide, in 8 bits: [N, H, W, C]."""
    longest = max(images.shape[2:])
    if longest > SIDE:
        size = [max(1, side * SIDE // longest) for side in images.shape[2:]]
        images = F.interpolate(images, size, mode="bilinear", antialias=True)
    small: NDArray[np.uint8] = images.mul(255).round().clamp(0, 255).byte().permute(0, 2, 3, 1).cpu().numpy()
    return small
