"""`attributes`: figures of SHAPES and CHARS drawn anew from a latent of their continuous attributes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from farout.core import Variation
from farout.data.scenes.renderer import draw
from farout.data.scenes.scene import Scenes
from farout.registry import unknown
from farout.variations.catalog import VARIATIONS

RANGES: dict[str, list[tuple[str, int | None, float, float]]] = {
    "hue": [("hue", None, 0, 360)],
    "size": [("size", None, 0.15, 0.55)],
    "rotation": [("rotation", axis, -180, 180) for axis in range(3)],
    "position": [("position", axis, -0.25, 0.25) for axis in range(2)],
    "lighting": [("light", 0, 0.35, 1), ("light", 1, 0, 0.6), ("light", 2, 0, 0.9), ("light", 3, 0, 360)],
}
"""Per attribute the fields of a scene that a latent sets: name, place, lowest and highest value."""


@VARIATIONS.register("attributes")
class AttributeVariation(Variation):
    """Hue, size, rotation, position and lighting of a drawn figure; class and shape stay those of the base.

    A latent in the unit cube has one coordinate per number that may change: hue 1, size 1, rotation 3, position 2,
    lighting 4 (intensity, ambient, specular, direction). `vary` chooses among them. Differentiable in the latent.
    """

    def __init__(self, vary: Sequence[str] = tuple(RANGES), side: int = 32) -> None:
        for name in vary:
            if name not in RANGES:
                raise unknown("attribute to vary:", name, RANGES)
        if not vary or isinstance(vary, str):
            raise ValueError(f"vary must list one or more of {', '.join(RANGES)}, got {vary!r}")
        self.vary, self.side = tuple(dict.fromkeys(vary)), side
        self._fields = [field for name in self.vary for field in RANGES[name]]

    @property
    def dim(self) -> int:
        return len(self._fields)

    def decode(self, z: Tensor, base: Scenes) -> Tensor:
        """The scenes of `base` with these latents [B, dim], drawn: float32 [B, 3, side, side] in [0, 1]."""
        if z.shape != (len(base), self.dim):
            raise ValueError(f"expected latents [{len(base)}, {self.dim}], got {list(z.shape)}")
        return draw(self.scenes(z, base), self.side)

    def scenes(self, z: Tensor, base: Scenes) -> Scenes:
        """What a latent stands for."""
        columns = {name: [_number(base, name, i) for i in range(_width(base, name))] for name in _varied(self._fields)}
        for coordinate, (name, place, low, high) in zip(z.unbind(1), self._fields, strict=True):
            columns[name][place or 0] = low + (high - low) * coordinate
        values = {name: torch.stack(parts, 1) for name, parts in columns.items()}
        flat = {name: value[:, 0] if getattr(base, name).ndim == 1 else value for name, value in values.items()}
        return dataclasses.replace(base, **flat)


def _varied(fields: list[tuple[str, int | None, float, float]]) -> list[str]:
    return list(dict.fromkeys(name for name, *_ in fields))


def _width(base: Scenes, name: str) -> int:
    """How many numbers a field of a scene has."""
    value: Tensor = getattr(base, name)
    return 1 if value.ndim == 1 else value.shape[1]


def _number(base: Scenes, name: str, place: int) -> Tensor:
    """One number of a field, [B]."""
    value: Tensor = getattr(base, name)
    return value if value.ndim == 1 else value[:, place]
