"""Sheets of frost that crops are cut from."""

from __future__ import annotations

import dataclasses
import functools

import torch
from torch import Tensor


@dataclasses.dataclass(frozen=True, eq=False)
class Sheets:
    """Textures of the same or of different sizes, each in the upper left corner of its sheet."""

    levels: Tensor  # float32 [K, 3, H, W]: RGB from 0 to 255
    sizes: Tensor  # [K, 2]: height and width
    ends: Tensor  # [K]: the share of crops that are cut from this texture or from one before it
    varying: Tensor  # [K]: standard deviation, in levels, of what is added to a whole crop

    def cut(self, height: int, width: int, place: Tensor, brightness: Tensor) -> Tensor:
        """One crop per image, [B, 3, height, width] in whole levels from 0 to 255.

        `place` [B, 3] from 0 to 1 says which texture and where in it, top and left; `brightness` [B] is normal noise.
        """
        which = (place[:, :1] >= self.ends[:-1]).sum(1)
        last = self.sizes[which] - torch.tensor([height, width], device=place.device)
        top, left = place[:, 1:].mul(last + 1).long().minimum(last).unbind(1)
        windows = self.levels.unfold(2, height, 1).unfold(3, width, 1).permute(0, 2, 3, 1, 4, 5)
        added = brightness.mul(self.varying[which]).round_()
        return windows[which, top, left].add_(added[:, None, None, None]).clamp_(0, 255)


@functools.lru_cache(maxsize=4)
def on_device(sheets: Sheets, device: torch.device) -> Sheets:
    """The same on another device, where they stay for the next batch."""
    return Sheets(*(getattr(sheets, field.name).to(device) for field in dataclasses.fields(sheets)))
