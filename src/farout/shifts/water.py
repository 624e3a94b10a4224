"""The relief of water drops, by the steps of OpenCV of which the original spatter is made."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from farout.shifts.edges import edge_distances

BOX = ((1, 1, 1), (1, 1, 1), (1, 1, 1))
EMBOSS = ((-2, -1, 0), (-1, 1, 1), (0, 1, 2))


def relief(levels: Tensor) -> Tensor:
    """How bright water of these 8-bit levels (int32) shines at each pixel, from 0 to 255 in float32; both [B, H, W].

    All sums are whole numbers below 2²⁴, so they are exact.
    """
    distances = torch.from_numpy(edge_distances(levels.cpu().numpy())).to(levels.device)
    flat = equalize(window(distances, BOX).div_(9 << 16).long())
    lit = window(flat.float(), EMBOSS).clamp_(0, 255)
    return window(lit, BOX).div_(9).round_()


def window(images: Tensor, kernel: Sequence[Sequence[int]]) -> Tensor:
    """Sum over the 3 × 3 neighbors weighted by the kernel; edges are mirrored at the outermost pixel. [B, H, W]."""
    height, width = images.shape[1:]
    padded = _mirrored(_mirrored(images, 1), 2)
    total = torch.zeros_like(images)
    for y, row in enumerate(kernel):
        for x, weight in enumerate(row):
            if weight:
                total.add_(padded[:, y : y + height, x : x + width], alpha=weight)
    return total


def _mirrored(images: Tensor, dim: int) -> Tensor:
    """One more pixel on both sides: the outermost but one."""
    second, last = min(1, images.shape[dim] - 1), max(0, images.shape[dim] - 2)
    return torch.cat([images.narrow(dim, second, 1), images, images.narrow(dim, last, 1)], dim)


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
