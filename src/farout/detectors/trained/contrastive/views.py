"""Random views of images for contrastive learning: crop, flip, color jitter and gray, all images of a batch at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from farout.shifts.kernels.recolored import gray, recolor_images, recolor_in_hsv

JITTERED, GRAYED = 0.8, 0.2
"""Probability of color jitter and of gray images (SimCLR, appendix A, for CIFAR-10)."""
FACTORS = 0.4
"""Factors of brightness (or value), contrast and saturation are in 1 ± 0.4."""
NUMBERS = 11
"""Random numbers of one view: flip, jitter, gray, four of the jitter, four of the crop."""
RATIO = (3 / 4, 4 / 3)
"""Range of width / height of a crop; its logarithm is uniform."""


@dataclass(frozen=True)
class Views:
    """Settings of the views: SimCLR's augmentation of small images, without blur.

    area: range of the crop's fraction of the image's area. A crop is resized to the image's side by bilinear
    interpolation; what lies outside of the image is mirrored. hue: largest turn of the hue, 1 is the whole circle.
    hsv: the factors change value and saturation in HSV (CSI), instead of brightness and the blend with gray (SimCLR).
    """

    area: tuple[float, float]
    flip: bool = True
    hue: float = 0.1
    hsv: bool = False

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Return one view of every image [B, C, H, W], each with its own random numbers."""
        return self.apply(images, torch.rand(len(images), NUMBERS, generator=generator).to(images.device))

    def apply(self, images: Tensor, uniform: Tensor) -> Tensor:
        """Return the views that these random numbers [B, 11] in [0, 1) stand for; differentiable in the images."""
        flip, jitter, grayed = (uniform[:, :3] < uniform.new_tensor([0.5, JITTERED, GRAYED])).unbind(1)
        if self.flip:
            images = torch.where(_column(flip), images.flip(3), images)
        recolor = recolor_in_hsv if self.hsv else recolor_images
        images = torch.where(_column(jitter), recolor(images, factors(uniform[:, 3:7], self.hue)), images)
        images = torch.where(_column(grayed), gray(images).expand_as(images), images)
        return resized_crop(images, crops(uniform[:, 7:], self.area))


def _column(values: Tensor) -> Tensor:
    return values[:, None, None, None]


def factors(uniform: Tensor, turn: float) -> Tensor:
    """Return factors of brightness, contrast and saturation, and the turn of the hue, from numbers [B, 4] in [0, 1)."""
    low = uniform.new_tensor([1 - FACTORS] * 3 + [-turn])
    high = uniform.new_tensor([1 + FACTORS] * 3 + [turn])
    return low + (high - low) * uniform


def crops(uniform: Tensor, area: tuple[float, float]) -> Tensor:
    """Return center x, center y, width and height of crops [B, 4], as fractions of the side, from numbers in [0, 1).

    A side that would exceed the image's is cut to it.
    """
    size = area[0] + (area[1] - area[0]) * uniform[:, 0]
    ratio = torch.exp(math.log(RATIO[0]) + (math.log(RATIO[1]) - math.log(RATIO[0])) * uniform[:, 1])
    width, height = (size * ratio).sqrt().clamp_max(1.0), (size / ratio).sqrt().clamp_max(1.0)
    left, top = (1 - width) * uniform[:, 2], (1 - height) * uniform[:, 3]
    return torch.stack([left + width / 2, top + height / 2, width, height], 1)


def resized_crop(images: Tensor, boxes: Tensor) -> Tensor:
    """Return the crops, resized to the side of the images by bilinear interpolation."""
    x, y, width, height = boxes.to(images.dtype).unbind(1)
    zero = torch.zeros_like(x)
    rows = [torch.stack([width, zero, 2 * x - 1], 1), torch.stack([zero, height, 2 * y - 1], 1)]
    grid = F.affine_grid(torch.stack(rows, 1), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="reflection", align_corners=False)
