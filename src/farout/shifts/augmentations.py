"""Augmentations that keep what an image shows: turned, mirrored, cropped, recolored.

They are set A of "Are Out-of-Distribution Detection Methods Reliable?", the paper of the realistic OOD benchmark. It
gives no settings; each class says which it takes and why. Results are 8-bit values, rounded.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from farout.core import Params, Shift
from farout.shifts.catalog import register
from farout.shifts.kernels.levels import round_
from farout.shifts.kernels.means import exact_means
from farout.shifts.kernels.recoloring import blended, recolor
from farout.shifts.kernels.taps import mirrored_into

Padding = Literal["reflect", "zeros"]
FINEST = 2**24
"""Brightness is added up in whole numbers of 1/2²⁴."""


def turned(images: Tensor, quarters: int, who: str) -> Tensor:
    """Square images by so many quarters of a turn counter-clockwise."""
    height, width = images.shape[-2:]
    if height != width:
        raise ValueError(
            f"{who} keeps the shape of images, so it takes square ones, got {height} × {width} pixels; "
            "crop or resize them first, or leave it out"
        )
    return torch.rot90(images, quarters, (2, 3))


@register
class Rot90(Shift):
    """Turned by 90° counter-clockwise; square images only."""

    name = "rot90"
    random = False

    def apply(self, images: Tensor, params: Params) -> Tensor:
        return turned(images, 1, self.name)


@register
class Rot270(Shift):
    """Turned by 270° counter-clockwise; square images only."""

    name = "rot270"
    random = False

    def apply(self, images: Tensor, params: Params) -> Tensor:
        return turned(images, 3, self.name)


@register
class Flip(Shift):
    """Left and right exchanged."""

    name = "flip"
    random = False

    def apply(self, images: Tensor, params: Params) -> Tensor:
        return images.flip(3)


@register
@dataclasses.dataclass(kw_only=True)
class RandomCrop(Shift):
    """A window as large as the image, anywhere in the padded image.

    That is what "random crop" means in torchvision and in training on CIFAR, where an eighth of the side (4 of 32
    pixels) is the habit; a random *resized* crop may lose what the image shows. Edges are mirrored at the outermost
    pixel, so that nothing comes in that was not there; "zeros" pads with black, as many do in training.
    """

    name = "random_crop"
    pad: float = 1 / 8
    """Padding on every edge as a share of the side."""
    padding: Padding = "reflect"

    def __post_init__(self) -> None:
        if not 0 < self.pad <= 0.5:
            raise ValueError(f"pad of random_crop must be a share of the side above 0, at most 0.5, got {self.pad!r}")
        if self.padding not in get_args(Padding):
            raise ValueError(f"padding of random_crop must be one of {get_args(Padding)}, got {self.padding!r}")
        self.pad = float(self.pad)

    def sample(self, shape: Sequence[int], rng: torch.Generator) -> Params:
        most = [round(side * self.pad) for side in shape[-2:]]
        return {"moved": torch.cat([torch.randint(-m, m + 1, (1,), generator=rng) for m in most])}

    def apply(self, images: Tensor, params: Params) -> Tensor:
        height, width = images.shape[-2:]
        down, right = params["moved"].unbind(1)
        rows, columns = (_window(move, side) for move, side in ((down, height), (right, width)))
        seen_rows, seen_columns = mirrored_into(rows, height), mirrored_into(columns, width)
        places = (seen_rows[:, :, None] * width + seen_columns[:, None]).flatten(1)
        found = images.flatten(2).gather(2, places[:, None].expand(-1, images.shape[1], -1)).view_as(images)
        if self.padding == "reflect":
            return found
        inside = (rows == seen_rows)[:, :, None] & (columns == seen_columns)[:, None]
        return found * inside[:, None]


def _window(moved: Tensor, side: int) -> Tensor:
    """The places [B, side] of windows moved by so much [B]."""
    return moved[:, None] + torch.arange(side, device=moved.device)


@register
@dataclasses.dataclass(kw_only=True)
class ColorJitter(Shift):
    """Brightness, contrast and saturation times a factor, and hue turned, by as much as contrastive learning does.

    The ranges are those that MoCo v2 and CSI train with. Each change is torchvision's (`adjust_brightness` and so on)
    and a factor is uniform in 1 ± its setting, the hue in ± its setting; torchvision's ColorJitter makes the four
    changes in a random order, here it is always this one. An image of one channel keeps to the first two.
    """

    name = "color_jitter"
    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.1
    """Turns of the color circle, at most 0.5."""

    def __post_init__(self) -> None:
        for name, value in self.params.items():
            most = 0.5 if name == "hue" else sys.float_info.max
            if not 0 <= value <= most:
                expected = "from 0 to 0.5" if name == "hue" else "of at least 0"
                raise ValueError(f"{name} of color_jitter must be a number {expected}, got {value!r}")
            setattr(self, name, float(value))

    def sample(self, shape: Sequence[int], rng: torch.Generator) -> Params:
        return {"uniform": torch.rand(4, generator=rng)}

    def apply(self, images: Tensor, params: Params) -> Tensor:
        factors = self.factors(params["uniform"])
        changed = _recolored_gray(images, factors) if images.shape[1] == 1 else _recolored(images, factors)
        return round_(changed)

    def factors(self, uniform: Tensor) -> Tensor:
        """Factors of brightness, contrast and saturation and the turn of hue [B, 4] from numbers in [0, 1)."""
        spans = [(max(0.0, 1 - most), 1 + most) for most in (self.brightness, self.contrast, self.saturation)]
        low, high = uniform.new_tensor([*spans, (-self.hue, self.hue)]).T
        factors: Tensor = low + (high - low) * uniform
        return factors


def _recolored(images: Tensor, factors: Tensor) -> Tensor:
    """Images [B, 3, H, W] with brightness, contrast, saturation and hue changed, on the CPU."""
    pixels = images.cpu().contiguous()
    out = torch.empty_like(pixels)
    recolor(pixels.flatten(2).numpy(), factors.cpu().contiguous().numpy(), out.flatten(2).numpy())
    return out.to(images.device)


def _recolored_gray(images: Tensor, factors: Tensor) -> Tensor:
    """Images [B, 1, H, W] with brightness and contrast changed."""
    brightness, contrast = factors[:, :2, None, None, None].unbind(1)
    brighter = images.mul(brightness).clamp_(0, 1)
    return blended(brighter, exact_means(brighter, FINEST), contrast)
