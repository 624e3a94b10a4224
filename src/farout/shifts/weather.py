"""Weather corruptions: snow, frost, fog and spatter."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from farout.core import Params
from farout.shifts.catalog import register
from farout.shifts.corruption import Corruption
from farout.shifts.kernels.drops import mud_mask, water_mask
from farout.shifts.kernels.gaussian import gaussian
from farout.shifts.kernels.levels import round_, truncate
from farout.shifts.kernels.motion import motion_blur
from farout.shifts.kernels.resample import enlarged_coordinates, enlarged_length, interpolate
from farout.shifts.tables import Row
from farout.shifts.textures.frost_photographs import Photographs, check_covers, read_photographs, scale_photographs
from farout.shifts.textures.frost_procedural import build_sheets
from farout.shifts.textures.frost_sheets import Sheets, to_device
from farout.shifts.textures.plasma import plasma

FIRST, LAST = -135.0, -45.0
"""Range of the angles at which flakes of snow move, in degrees."""
WATER = (175, 238, 238)
MUD = (63, 42, 20)
GRAY = (0.2989, 0.5870, 0.1140)
"""Weights of red, green and blue for `spatter` on images of one channel, as in imagecorruptions."""
LUMA = (0.299, 0.587, 0.114)
"""Weights of OpenCV, for `snow`. Since values are truncated, the fourth digit can change an 8-bit level."""


@register
class Snow(Corruption):
    """Enlarged noise above a threshold, blurred by motion: blend·x + (1 − blend)·max(x, 1.5·gray + .5) + flakes.

    The flakes are added twice, the second time rotated by 180°. Noise is drawn only for the part that is enlarged.
    """

    name = "snow"

    def sample(self, shape: Sequence[int], rng: torch.Generator) -> Params:
        zoom = self.constants(shape)[2]
        rows, columns = (enlarged_length(side, zoom) for side in shape[-2:])
        return {"noise": torch.randn(rows, columns, generator=rng), "angle": torch.rand((), generator=rng)}

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        mean, sigma, zoom, threshold, radius, blur, blend = constants
        height, width = images.shape[2:]
        cloud = params["noise"].mul(sigma).add_(mean)
        if zoom != 1:
            cloud = interpolate(cloud, enlarged_coordinates(height, zoom), enlarged_coordinates(width, zoom))
        layer = truncate(cloud.masked_fill_(cloud < threshold, 0))[:, None]
        angles = params["angle"].mul(LAST - FIRST).add_(FIRST)
        layer = round_(motion_blur(layer, int(radius), blur, angles))
        pale = torch.maximum(images, gray(images).mul_(1.5).add_(0.5)).mul_(1 - blend)
        return pale.add_(images, alpha=blend).add_(layer + layer.flip(2, 3))


@register
@dataclasses.dataclass(kw_only=True)
class Frost(Corruption):
    """Weighted sum of the image and a random crop of frost.

    The frost is procedural: noise with the statistics of the photographs that the published sets use. `frost_dir` is an
    optional folder with the photographs themselves; all are equally likely. (The originals are six files, of which the
    published sets use the first five.)
    """

    name = "frost"
    frost_dir: str | Path | None = None
    photographs: Photographs | None = dataclasses.field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frost_dir is not None:
            self.photographs = read_photographs(self.frost_dir)

    @property
    def params(self) -> dict[str, Any]:
        """Parameters; photographs are identified by their content, not by their path."""
        return {"severity": self.severity, **({"photographs": self.photographs.digest} if self.photographs else {})}

    @property
    def label(self) -> str:
        return super().label if self.photographs else f"{self.name} (procedural) {self.severity}"

    def sample(self, shape: Sequence[int], rng: torch.Generator) -> Params:
        return {"place": torch.rand(3, generator=rng), "brightness": torch.randn((), generator=rng)}

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        image_weight, frost_weight, scale = constants
        height, width = images.shape[2:]
        sheets = to_device(self._sheets(height, width, scale), images.device)
        frost = sheets.cut(height, width, params["place"], params["brightness"])
        if images.shape[1] == 1:
            frost = gray(frost)
        return frost.mul_(frost_weight / 255).add_(images, alpha=image_weight)

    def _sheets(self, height: int, width: int, scale: float) -> Sheets:
        if self.photographs is None:
            return build_sheets(height, width)
        check_covers(self.photographs, height, width, scale)
        return scale_photographs(self.photographs, scale)


@register
class Fog(Corruption):
    """Light map added to the image, the sum scaled to the image's own range: (x + c·map)·max/(max + c).

    The map's side is the smallest power of two that covers the image; it is cropped to the image.
    """

    name = "fog"

    def sample(self, shape: Sequence[int], rng: torch.Generator) -> Params:
        side = 2 ** max(1, (max(shape[-2:]) - 1).bit_length())
        return {"noise": torch.empty(side * side - 1).uniform_(-1, 1, generator=rng)}

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        strength, decay = constants
        height, width = images.shape[2:]
        maps = torch.from_numpy(plasma(params["noise"].cpu().numpy(), decay)).to(images.device)
        brightest = images.amax((1, 2, 3), keepdim=True)
        return maps[:, None, :height, :width].mul(strength).add(images).mul_(brightest / (brightest + strength))


@register
class Spatter(Corruption):
    """Drops on the lens: blurred noise above a threshold. Water (severity 1 to 3) adds light, mud (4 and 5) covers."""

    name = "spatter"

    def sample(self, shape: Sequence[int], rng: torch.Generator) -> Params:
        return {"noise": torch.randn(*shape[-2:], generator=rng)}

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        mean, sigma, blur, threshold, strength, is_mud = constants
        liquid = gaussian(params["noise"].mul(sigma).add_(mean), blur)
        if is_mud:
            mask = mud_mask(liquid, threshold, strength)[:, None]
            return images.mul(1 - mask).add_(mask * _color(MUD, images))
        mask = water_mask(liquid, threshold)[:, None]
        return mask.mul(strength).mul(_color(WATER, images)).add_(images)


def _color(color: Sequence[int], images: Tensor) -> Tensor:
    """Return a color, or its gray value for images of one channel; [C, 1, 1]."""
    gray = sum(weight * part for weight, part in zip(GRAY, color, strict=True))
    parts = list(color) if images.shape[1] == 3 else [gray]
    return images.new_tensor(parts).div_(255)[:, None, None]


def gray(images: Tensor) -> Tensor:
    """Return the gray values [B, 1, H, W] of images [B, C, H, W]."""
    if images.shape[1] == 1:
        return images.clone()
    total = images[:, :1] * LUMA[0]
    return total.add_(images[:, 1:2], alpha=LUMA[1]).add_(images[:, 2:], alpha=LUMA[2])
