"""Sheets of frost, from which crops are cut."""

from __future__ import annotations

import dataclasses
import functools

import torch
from torch import Tensor


@dataclasses.dataclass(frozen=True, eq=False)
class Sheets:
    """Batch of textures, possibly of different sizes, each in the upper left corner of its sheet."""

    levels: Tensor  # float32 [K, 3, H, W]: RGB from 0 to 255
    sizes: Tensor  # [K, 2]: height and width
    ends: Tensor  # [K]: cumulative fraction of crops per texture
    varying: Tensor  # [K]: standard deviation, in levels, of the offset of a crop

    def cut(self, height: int, width: int, place: Tensor, brightness: Tensor) -> Tensor:
        """Return one crop per image, [B, 3, height, width] in integer levels from 0 to 255.

        `place` [B, 3] from 0 to 1 selects texture, top and left; `brightness` [B] is normal noise.
        """
        which = (place[:, :1] >= self.ends[:-1]).sum(1)
        last = self.sizes[which] - torch.tensor([height, width], device=place.device)
        top, left = place[:, 1:].mul(last + 1).long().minimum(last).unbind(1)
        windows = self.levels.unfold(2, height, 1).unfold(3, width, 1).permute(0, 2, 3, 1, 4, 5)
        added = brightness.mul(self.varying[which]).round_()
        return windows[which, top, left].add_(added[:, None, None, None]).clamp_(0, 255)


@functools.lru_cache(maxsize=4)
def to_device(sheets: Sheets, device: torch.device) -> Sheets:
    """Return the sheets on another device; cached for the next batch."""
    return Sheets(*(getattr(sheets, field.name).to(device) for field in dataclasses.fields(sheets)))
