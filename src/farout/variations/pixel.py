"""`pixel`: independent changes of all pixel values within a small box."""

from __future__ import annotations

import dataclasses
import math
from typing import Self

from torch import Tensor

from farout.variations.bounds import check_latents
from farout.variations.catalog import VARIATIONS
from farout.variations.variation import Variation


@VARIATIONS.register("pixel")
@dataclasses.dataclass(kw_only=True)
class Pixel(Variation):
    """Independent changes of all pixel values: the l_inf ball around an image, x + radius·(2z − 1), clamped to [0, 1].

    A latent has one coordinate per channel and pixel, in the image's memory order.
    """

    name = "pixel"
    radius: float = 0.01
    shape: tuple[int, ...] | None = None
    """Shape of one image (C, H, W); set by the search."""

    def __post_init__(self) -> None:
        if not 0 < self.radius <= 1:
            raise ValueError(f"radius must be in (0, 1], got {self.radius}")
        if self.shape is not None:
            self.shape = tuple(self.shape)

    @property
    def dim(self) -> int:
        """Number of latent coordinates: one per pixel value."""
        return math.prod(self._shape)

    @property
    def _shape(self) -> tuple[int, ...]:
        if self.shape is None:
            raise ValueError(
                "pixel has as many coordinates as an image has values, and its shape is not known: use "
                "suited((C, H, W)), or give shape=(C, H, W)"
            )
        return self.shape

    def suited(self, shape: tuple[int, ...]) -> Self:
        return dataclasses.replace(self, shape=tuple(shape))

    def decode(self, z: Tensor, base: Tensor) -> Tensor:
        """Return the images [B, C, H, W] with each value changed by its own coordinate."""
        if base.shape[1:] != self._shape:
            raise ValueError(f"pixel is for images of shape {self._shape}, got {tuple(base.shape[1:])}")
        check_latents(z, len(base), self.dim)
        return (base + self.radius * (2 * z.view(base.shape) - 1)).to(base.dtype).clamp(0, 1)
