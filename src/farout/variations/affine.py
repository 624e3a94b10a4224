"""`affine`: images rotated, translated, scaled and sheared about their center."""

from __future__ import annotations

import dataclasses
from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from farout.registry import unknown
from farout.variations.bounds import Bounds, check_images, check_latents, check_shape, interpolate, parse_bounds
from farout.variations.catalog import VARIATIONS
from farout.variations.variation import Variation


@VARIATIONS.register("affine")
@dataclasses.dataclass(kw_only=True)
class Affine(Variation):
    """Rotation, translation, scale and shear: the Affine of "Evaluation via Generation" (appendix D.2).

    Same as `torchvision.transforms.functional.affine` on tensors: about the center, black outside, shear along x. With
    "nearest", the default of torchvision and of the paper, images are piecewise constant in the latent and the gradient
    is zero; "bilinear" has a gradient. Worst cases differ much between the two, so tables name the interpolation.
    """

    name = "affine"
    dim = 5
    coordinates = ("rotation", "translation_x", "translation_y", "scale", "shear")
    rotation: Bounds = (-45.0, 45.0)
    """Degrees, clockwise."""
    translation_x: Bounds = (-10 / 32, 10 / 32)
    """Translation to the right as a fraction of the width; not rounded to pixels."""
    translation_y: Bounds = (-10 / 32, 10 / 32)
    """Translation down as a fraction of the height."""
    scale: Bounds = (0.9, 1.5)
    shear: Bounds = (-30.0, 30.0)
    """Degrees."""
    interpolation: Literal["nearest", "bilinear"] = "nearest"

    def __post_init__(self) -> None:
        self.rotation = parse_bounds("rotation", self.rotation)
        self.translation_x = parse_bounds("translation_x", self.translation_x)
        self.translation_y = parse_bounds("translation_y", self.translation_y)
        self.scale = parse_bounds("scale", self.scale, low=1e-3)
        self.shear = parse_bounds("shear", self.shear, low=-89, high=89)
        if self.interpolation not in ("nearest", "bilinear"):
            raise unknown("interpolation", self.interpolation, ("nearest", "bilinear"))

    @property
    def label(self) -> str:
        return f"{self.name}, {self.interpolation}"

    def suited(self, shape: tuple[int, ...]) -> Self:
        check_shape(shape, self.name)
        return self

    def decode(self, z: Tensor, base: Tensor) -> Tensor:
        """Transform the images [B, C, H, W], each by its own latent [B, 5]."""
        check_images(base, self.name)
        check_latents(z, len(base), self.dim)
        height, width = base.shape[2:]
        edges = torch.tensor([[width / 2], [height / 2]], dtype=base.dtype, device=base.device)
        grid = sampling_grid(self.inverse(z, height, width).to(base.dtype) / edges, height, width)
        moved = F.grid_sample(base, grid, mode=self.interpolation, align_corners=False)
        return moved if self.interpolation == "nearest" else moved.clamp_(0, 1)  # weights may add up to 1 + 1e-7

    def inverse(self, z: Tensor, height: int, width: int) -> Tensor:
        """Return the inverse maps: matrices [B, 2, 3] on pixel coordinates relative to the center, float64."""
        x, y = self.translation_x, self.translation_y
        pairs = (self.rotation, _scale_bounds(x, width), _scale_bounds(y, height), self.scale, self.shear)
        degrees, right, down, scale, shear = interpolate(z, pairs).unbind(1)
        cos, sin, tan = degrees.deg2rad().cos(), degrees.deg2rad().sin(), shear.deg2rad().tan()
        across = torch.stack([cos - sin * tan, cos * tan + sin], 1) / scale[:, None]
        along = torch.stack([-sin, cos], 1) / scale[:, None]
        linear = torch.stack([across, along], 1)
        return torch.cat([linear, -(linear * torch.stack([right, down], 1)[:, None]).sum(2, keepdim=True)], 2)


def sampling_grid(matrices: Tensor, height: int, width: int) -> Tensor:
    """Return the positions to which matrices [B, 2, 3] map the pixel centers: [B, H, W, 2], x before y.

    Coordinates are relative to the image center. Terms are added in torchvision's order, since the nearest pixel may
    depend on the last bit.
    """
    across, down, offset = matrices[:, :, None, None].unbind(-1)
    x = torch.arange(width, dtype=matrices.dtype, device=matrices.device) - (width - 1) / 2
    y = torch.arange(height, dtype=matrices.dtype, device=matrices.device) - (height - 1) / 2
    return (across * x + down * y[:, None]).add_(offset).permute(0, 2, 3, 1)


def _scale_bounds(pair: Bounds, size: int) -> Bounds:
    return pair[0] * size, pair[1] * size
