"""Augmentations that keep the content of an image: rotation, flip, crop, color jitter.

They are set A of "Are Out-of-Distribution Detection Methods Reliable?", the paper of the realistic OOD benchmark. It
states no parameters; each class documents its own. Results are rounded to 8-bit values.
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
from farout.shifts.kernels.recoloring import blend, recolor
from farout.shifts.kernels.taps import mirror_indices

Padding = Literal["reflect", "zeros"]
FINEST = 2**24
"""Brightness is summed in integer multiples of 1/2²⁴."""


def rotate_quarters(images: Tensor, quarters: int, name: str) -> Tensor:
    """Rotate square images counter-clockwise by multiples of 90°."""
    height, width = images.shape[-2:]
    if height != width:
        raise ValueError(
            f"{name} keeps the shape of images, so it needs square ones, got {height} × {width} pixels; "
            "crop or resize them first, or leave it out"
        )
    return torch.rot90(images, quarters, (2, 3))


@register
class Rot90(Shift):
    """Rotation by 90° counter-clockwise; square images only."""

    name = "rot90"
    random = False

    def apply(self, images: Tensor, params: Params) -> Tensor:
        return rotate_quarters(images, 1, self.name)


@register
class Rot270(Shift):
    """Rotation by 270° counter-clockwise; square images only."""

    name = "rot270"
    random = False

    def apply(self, images: Tensor, params: Params) -> Tensor:
        return rotate_quarters(images, 3, self.name)


@register
class Flip(Shift):
    """Horizontal flip."""

    name = "flip"
    random = False

    def apply(self, images: Tensor, params: Params) -> Tensor:
        return images.flip(3)


@register
@dataclasses.dataclass(kw_only=True)
class RandomCrop(Shift):
    """Random window of the size of the image within the padded image.

    This is the meaning of "random crop" in torchvision and in training on CIFAR, where a padding of an eighth of the
    side (4 of 32 pixels) is usual; a random *resized* crop may lose the content of the image. Edges are mirrored at the
    outermost pixel, so that no new content appears; "zeros" pads with black, as is common in training.
    """

    name = "random_crop"
    pad: float = 1 / 8
    """Padding on every edge as a fraction of the side."""
    padding: Padding = "reflect"

    def __post_init__(self) -> None:
        if not 0 < self.pad <= 0.5:
            raise ValueError(
                f"pad of random_crop must be a fraction of the side above 0, at most 0.5, got {self.pad!r}"
            )
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
        source_rows, source_columns = mirror_indices(rows, height), mirror_indices(columns, width)
        indices = (source_rows[:, :, None] * width + source_columns[:, None]).flatten(1)
        cropped = images.flatten(2).gather(2, indices[:, None].expand(-1, images.shape[1], -1)).view_as(images)
        if self.padding == "reflect":
            return cropped
        inside = (rows == source_rows)[:, :, None] & (columns == source_columns)[:, None]
        return cropped * inside[:, None]


def _window(offsets: Tensor, side: int) -> Tensor:
    """Return the indices [B, side] of windows at these offsets [B]."""
    return offsets[:, None] + torch.arange(side, device=offsets.device)


@register
@dataclasses.dataclass(kw_only=True)
class ColorJitter(Shift):
    """Random factors of brightness, contrast and saturation, and a random rotation of the hue.

    The ranges are those of MoCo v2 and CSI. The changes are torchvision's (`adjust_brightness` and so on): factors are
    uniform in 1 ± the parameter, the hue in ± the parameter. torchvision's ColorJitter applies the four changes in
    random order, here the order is fixed. On images of one channel only brightness and contrast change.
    """

    name = "color_jitter"
    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.1
    """Maximum rotation of the hue in turns, at most 0.5."""

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
        changed = _recolor_gray(images, factors) if images.shape[1] == 1 else _recolor(images, factors)
        return round_(changed)

    def factors(self, uniform: Tensor) -> Tensor:
        """Return factors of brightness, contrast, saturation and the rotation of hue [B, 4] from numbers in [0, 1)."""
        spans = [(max(0.0, 1 - most), 1 + most) for most in (self.brightness, self.contrast, self.saturation)]
        low, high = uniform.new_tensor([*spans, (-self.hue, self.hue)]).T
        factors: Tensor = low + (high - low) * uniform
        return factors


def _recolor(images: Tensor, factors: Tensor) -> Tensor:
    """Return images [B, 3, H, W] with brightness, contrast, saturation and hue changed, on the CPU."""
    pixels = images.cpu().contiguous()
    out = torch.empty_like(pixels)
    recolor(pixels.flatten(2).numpy(), factors.cpu().contiguous().numpy(), out.flatten(2).numpy())
    return out.to(images.device)


def _recolor_gray(images: Tensor, factors: Tensor) -> Tensor:
    """Return images [B, 1, H, W] with brightness and contrast changed."""
    brightness, contrast = factors[:, :2, None, None, None].unbind(1)
    brighter = images.mul(brightness).clamp_(0, 1)
    return blend(brighter, exact_means(brighter, FINEST), contrast)
