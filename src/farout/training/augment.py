"""Augmentation of training images: shifts by name, and the crop and flip of He et al. 2016 for a whole batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from farout import shifts
from farout.core import Shift
from farout.identity import Json
from farout.rng import generator, seed_of

CROP_FLIP = "crop_flip"
PADDING = 4
"""Black pixels added on each side before the crop."""


class Augmentation(ABC):
    """Random change of training images."""

    @abstractmethod
    def identity(self) -> Json:
        """Return the name, version and parameters that determine the changed images, together with the seed."""

    @abstractmethod
    def __call__(self, images: Tensor, seed: int) -> Tensor:
        """Return the augmented images [B, C, H, W], each with its own random parameters."""


def augmentation_names() -> list[str]:
    """Return the names of all augmentations: those of shifts, and "crop_flip"."""
    return sorted([CROP_FLIP, *shifts.names()])


def augmentations(names: Iterable[str]) -> list[Augmentation]:
    """Return the augmentations of these names."""
    return [RandomCropFlip() if name == CROP_FLIP else ShiftAugmentation(shifts.shift(name)) for name in names]


class ShiftAugmentation(Augmentation):
    """Shift of every image; a shift without random parameters is applied to a random half of the images."""

    def __init__(self, shift: Shift) -> None:
        self.shift = shift

    def identity(self) -> Json:
        return self.shift.identity()

    def __call__(self, images: Tensor, seed: int) -> Tensor:
        changed = self.shift(images, seed)
        if self.shift.random:
            return changed
        draws = torch.rand(len(images), generator=generator(seed, self.shift.name))
        return torch.where((draws < 0.5).to(images.device)[:, None, None, None], changed, images)


class RandomCropFlip(Augmentation):
    """Crop and flip of He et al. 2016, section 4.2: padded with 4 black pixels, cropped back, mirrored or not."""

    def identity(self) -> Json:
        return {"name": CROP_FLIP, "version": 1}

    def __call__(self, images: Tensor, seed: int) -> Tensor:
        return crop_flip(images, sample_crop_flip(len(images), generator(seed, CROP_FLIP)))


class CropFlip(NamedTuple):
    """Parameters per image: where the crop starts in the padded image, and True if it is mirrored."""

    top: Tensor  # [B] in 0 .. 2 * PADDING
    left: Tensor  # [B] in 0 .. 2 * PADDING
    flip: Tensor  # [B] bool


def sample_crop_flip(count: int, generator: torch.Generator) -> CropFlip:
    """Draw the parameters of `count` images, uniformly over all crops and both directions."""
    top, left = torch.randint(0, 2 * PADDING + 1, (2, count), generator=generator)
    return CropFlip(top, left, torch.rand(count, generator=generator) < 0.5)


def crop_flip(images: Tensor, params: CropFlip) -> Tensor:
    """Return images [B, C, H, W] padded, cropped back to their side and mirrored according to `params`."""
    top, left, flip = (value.to(images.device) for value in params)
    height, width = images.shape[2:]
    columns = torch.arange(width, device=images.device).expand(len(images), -1)
    columns = left[:, None] + torch.where(flip[:, None], width - 1 - columns, columns)
    rows = top[:, None] + torch.arange(height, device=images.device)
    padded = F.pad(images, (PADDING,) * 4).permute(0, 2, 3, 1)
    image = torch.arange(len(images), device=images.device)[:, None, None]
    return padded[image, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def augment(images: Tensor, changes: Iterable[Augmentation], seed: int) -> Tensor:
    """Return the images with these augmentations applied one after the other."""
    for number, change in enumerate(changes):
        images = change(images, seed_of(seed, number))
    return images
