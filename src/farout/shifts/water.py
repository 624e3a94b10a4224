"""The relief of water drops, by the steps of OpenCV of which the original spatter is made."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from farout.shifts.edges import edge_distances

BOX = ((1, 1, 1), (1, 1, 1), (1, 1, 1))
EMBOSS = ((-2, -1, 0), (-1, 1, 1), (0, 1, 2))


def relief(levels: Tensor) -> Tensor:
    """How bright water of these 8-bit levels shines at each pixel, whole numbers from 0 to 255; both int [B, H, W]."""
    distances = torch.from_numpy(edge_distances(levels.cpu().numpy())).to(levels.device)
    flat = equalize(window(distances, BOX) // (9 << 16))
    lit = window(flat, EMBOSS).clamp_(0, 255)
    return (2 * window(lit, BOX) + 9) // 18


def window(images: Tensor, kernel: Sequence[Sequence[int]]) -> Tensor:
    """Sum over the 3 × 3 neighbors weighted by the kernel; edges are mirrored at the outermost pixel. [B, H, W]."""
    height, width = images.shape[1:]
    padded = images[:, _mirrored(height)][:, :, _mirrored(width)]
    total = torch.zeros_like(images)
    for y, row in enumerate(kernel):
        for x, weight in enumerate(row):
            if weight:
                total += padded[:, y : y + height, x : x + width] * weight
    return total


def _mirrored(side: int) -> Tensor:
    """The places −1 to `side` as places in the image."""
    inner = torch.arange(side)
    return torch.cat([inner[:2][-1:], inner, inner[-2:][:1]])


def equalize(images: Tensor) -> Tensor:
    """8-bit levels [B, H, W] spread so that each histogram becomes flat; an image of one level stays as it is."""
    flat = images.flatten(1)
    counts = flat.new_zeros(len(flat), 256).scatter_add_(1, flat, torch.ones_like(flat))
    ranks = counts.cumsum(1)
    lowest = ranks.gather(1, flat.amin(1, keepdim=True))
    others = flat.shape[1] - lowest
    scale = torch.full_like(others, 255, dtype=torch.float32).div_(others)  # 255 / others would round twice
    levels = (ranks - lowest).float().mul_(scale).round_().long()
    return torch.where(others > 0, levels.gather(1, flat), flat).view_as(images)
