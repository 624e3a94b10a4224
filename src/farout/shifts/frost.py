"""Frost: a crop of an icy texture is laid over the image."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from farout.core import Params
from farout.shifts.catalog import register
from farout.shifts.corruption import Corruption
from farout.shifts.frost_photos import Photographs, check_covers, read, scaled
from farout.shifts.frost_sheets import Sheets, on_device
from farout.shifts.frost_texture import procedural
from farout.shifts.tables import Row
from farout.shifts.weather import gray


@register
@dataclasses.dataclass(kw_only=True)
class Frost(Corruption):
    """A weighted sum of the image and a random crop of frost.

    The frost is drawn from noise with the statistics of the photographs that the published sets were made with.
    `frost_dir` is a folder with the photographs themselves; each of them is as likely as the others. (The originals
    come as six files, of which the published sets use the first five.)
    """

    name = "frost"
    frost_dir: str | None = None
    photographs: Photographs | None = dataclasses.field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frost_dir is not None:
            self.photographs = read(self.frost_dir)

    @property
    def params(self) -> dict[str, Any]:
        """The settings; photographs count by what they show, not by where they lie."""
        return {"severity": self.severity, **({"photographs": self.photographs.digest} if self.photographs else {})}

    @property
    def label(self) -> str:
        return super().label if self.photographs else f"{self.name} (procedural) {self.severity}"

    def sample(self, shape: Sequence[int], rng: torch.Generator) -> Params:
        return {"place": torch.rand(3, generator=rng), "brightness": torch.randn((), generator=rng)}

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        image_weight, frost_weight, scale = constants
        height, width = images.shape[2:]
        sheets = on_device(self._sheets(height, width, scale), images.device)
        frost = sheets.cut(height, width, params["place"], params["brightness"])
        if images.shape[1] == 1:
            frost = gray(frost)
        return frost.mul_(frost_weight / 255).add_(images, alpha=image_weight)

    def _sheets(self, height: int, width: int, scale: float) -> Sheets:
        if self.photographs is None:
            return procedural(height, width)
        check_covers(self.photographs, height, width, scale)
        return scaled(self.photographs, scale)
