"""Training augmentation: the random crop and flip of He et al. 2016, section 4.2, for a whole batch at once."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

PADDING = 4
"""Black pixels added on each side before the crop."""


class CropFlip(NamedTuple):
    """Per image: where the crop starts in the padded image, and whether it is mirrored."""

    top: Tensor  # [B] in 0 .. 2 * PADDING
    left: Tensor  # [B] in 0 .. 2 * PADDING
    flip: Tensor  # [B] bool


def sample_crop_flip(count: int, generator: torch.Generator) -> CropFlip:
    """Draw the parameters of `count` images, every crop and both directions alike."""
    top, left = torch.randint(0, 2 * PADDING + 1, (2, count), generator=generator)
    return CropFlip(top, left, torch.rand(count, generator=generator) < 0.5)


def crop_flip(images: Tensor, params: CropFlip) -> Tensor:
    """Images [B, C, H, W] padded, cropped back to their side and mirrored as `params` say."""
    top, left, flip = (value.to(images.device) for value in params)
    height, width = images.shape[2:]
    columns = torch.arange(width, device=images.device).expand(len(images), -1)
    columns = left[:, None] + torch.where(flip[:, None], width - 1 - columns, columns)
    rows = top[:, None] + torch.arange(height, device=images.device)
    padded = F.pad(images, (PADDING,) * 4).permute(0, 2, 3, 1)
    image = torch.arange(len(images), device=images.device)[:, None, None]
    return padded[image, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
