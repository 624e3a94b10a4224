"""`attributes`: figures of SHAPES and CHARS drawn anew from a latent of their continuous attributes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from farout.data.scenes import glyphs
from farout.data.scenes.renderer import draw
from farout.data.scenes.scene import GLYPHS, KINDS, Scenes
from farout.data.scenes.worlds import CHARS, SHAPES, Range, World
from farout.registry import unknown
from farout.variations.catalog import VARIATIONS
from farout.variations.variation import Variation

FIELDS = {"hue": "hue", "size": "size", "rotation": "rotation", "position": "position", "lighting": "light"}
"""Per attribute the field of a scene that a latent sets."""


def ranges(world: World) -> dict[str, list[Range]]:
    """Per attribute the lowest and highest value of each of its numbers.

    Sizes are those of inliers and of shifted figures: all fit into the image at any rotation, though not at any place.
    """
    return {
        "hue": [(0, 360)],
        "size": [(world.shifted_size[0], world.size[1])],
        "rotation": [(-180, 180)] * 3,
        "position": [(-0.25, 0.25)] * 2,
        "lighting": [(0.35, 1), (0, 0.6), (0, 0.9), (0, 360)],
    }


@VARIATIONS.register("attributes")
class AttributeVariation(Variation):
    """Hue, size, rotation, position and lighting of a drawn figure; class and shape stay those of the base.

    A latent in the unit cube has one coordinate per number that may change: hue 1, size 1, rotation 3, position 2,
    lighting 4 (intensity, ambient, specular, direction). `vary` chooses among them. Letters have sizes of their own and
    are drawn in `font`, as by `farout.load("chars")`. Differentiable in the latent.
    """

    def __init__(self, vary: Sequence[str] = tuple(FIELDS), side: int = 32, font: str | Path | None = None) -> None:
        if isinstance(vary, str) or not vary:
            raise ValueError(f"vary must list one or more of {', '.join(FIELDS)}, got {vary!r}")
        for name in vary:
            if name not in FIELDS:
                raise unknown("attribute to vary:", name, FIELDS)
        self.vary, self.side = tuple(dict.fromkeys(vary)), side
        self.font = None if font is None else Path(font)
        if self.font is not None:
            glyphs.digest(self.font)  # a font that cannot be read is found out now
        self._widths = [len(ranges(SHAPES)[name]) for name in self.vary]
        self._bounds = [[pair for name in self.vary for pair in ranges(world)[name]] for world in (SHAPES, CHARS)]

    @property
    def dim(self) -> int:
        return sum(self._widths)

    def decode(self, z: Tensor, base: Scenes) -> Tensor:
        """The scenes of `base` with these latents [B, dim], drawn: float32 [B, 3, side, side] in [0, 1]."""
        if z.shape != (len(base), self.dim):
            raise ValueError(f"expected latents [{len(base)}, {self.dim}], got {list(z.shape)}")
        return draw(self.scenes(z, base), self.side, self.font)

    def scenes(self, z: Tensor, base: Scenes) -> Scenes:
        """What a latent stands for."""
        letter = (base.kind >= KINDS.index(GLYPHS[0])).long().to(z.device)
        low, high = z.new_tensor(self._bounds)[letter].unbind(-1)  # [B, dim]
        values = (low + (high - low) * z).split(self._widths, 1)
        fields = {FIELDS[name]: value for name, value in zip(self.vary, values, strict=True)}
        shaped = {name: value.reshape(getattr(base, name).shape) for name, value in fields.items()}
        return dataclasses.replace(base, **shaped)
