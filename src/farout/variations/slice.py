"""`slice`: a variation restricted to a subset of its coordinates; the others stay at the middle."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Self

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from farout.core import ImageSet
from farout.registry import unknown
from farout.variations.bounds import check_latents
from farout.variations.catalog import VARIATIONS
from farout.variations.composed import build_variation
from farout.variations.variation import Variation

MIDDLE = 0.5
"""Value at which the other coordinates are held."""


@VARIATIONS.register("slice")
@dataclasses.dataclass(kw_only=True)
class Slice(Variation):
    """Another variation on the cube, restricted to its `free` coordinates; the others are 0.5, the middle.

    >>> Slice(of=Affine(), free=["rotation", "translation_x"])
    """

    name = "slice"
    of: Variation
    """The variation: a `Variation`, a name, or a mapping of name and settings."""
    free: Sequence[str]
    """Names of the free coordinates."""

    def __post_init__(self) -> None:
        self.of = build_variation(self.of)
        if self.of.domain != "cube" or not self.of.conditional:
            raise ValueError(
                f"only variations with a base and a cube domain have slices, and {self.of.name} has not both"
            )
        if isinstance(self.free, str) or not self.free or len(set(self.free)) < len(self.free):
            raise ValueError(f"free must list different coordinates of {self.of.name}, got {self.free!r}")
        self.free = tuple(self.free)
        for name in self.free:
            if name not in self.of.coordinates:
                raise unknown(f"coordinate of {self.of.name}:", name, self.of.coordinates)

    @property
    def label(self) -> str:
        return f"{' and '.join(self.free)} of {self.of.label}"

    @property
    def parts(self) -> tuple[Variation, ...]:
        return (self.of,)

    @property
    def dim(self) -> int:
        """Number of latent coordinates: the free ones."""
        return len(self.free)

    @property
    def coordinates(self) -> tuple[str, ...]:
        return tuple(self.free)

    def base(self, images: ImageSet, indices: ArrayLike) -> Any:
        return self.of.base(images, indices)

    def suited(self, shape: tuple[int, ...]) -> Self:
        return dataclasses.replace(self, of=self.of.suited(shape))

    def decode(self, z: Tensor, base: Any) -> Tensor:
        """Decode with the whole variation, the other coordinates at the middle."""
        check_latents(z, len(base), self.dim)
        whole = torch.full((len(z), self.of.dim), MIDDLE, dtype=z.dtype, device=z.device)
        whole[:, [self.of.coordinates.index(name) for name in self.free]] = z
        return self.of.decode(whole, base)

    def identity(self) -> dict[str, Any]:
        """Return the identity of the whole variation, and the free coordinates."""
        params = {"of": self.of.identity(), "free": list(self.free)}
        return {"name": self.name, "version": self.version, "params": params}
