"""`attributes`: figures of SHAPES and CHARS rendered with new continuous attributes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from numpy.typing import ArrayLike
from torch import Tensor

from farout.core import ImageSet
from farout.data.procedural import check_at_least
from farout.data.scenes import glyphs, renderer
from farout.data.scenes.renderer import SMALLEST_SIDE, draw
from farout.data.scenes.scene import GLYPHS, KINDS, Scenes
from farout.data.scenes.worlds import CHARS, SHAPES, Range, World
from farout.data.shapes_chars import Drawn
from farout.data.subset import Subset
from farout.registry import unknown
from farout.tensors import as_indices
from farout.variations.bounds import check_latents
from farout.variations.catalog import VARIATIONS
from farout.variations.variation import Variation

FIELDS = {"hue": "hue", "size": "size", "rotation": "rotation", "position": "position", "lighting": "light"}
"""Scene field of each attribute."""


def ranges(world: World) -> dict[str, list[Range]]:
    """Return the lowest and highest value of each number of every attribute.

    Sizes span those of inliers and of shifted figures: all fit into the image at any rotation, but not at any position.
    """
    return {
        "hue": [(0, 360)],
        "size": [(world.shifted_size[0], world.size[1])],
        "rotation": [(-180, 180)] * 3,
        "position": [(-0.25, 0.25)] * 2,
        "lighting": [(0.35, 1), (0, 0.6), (0, 0.9), (0, 360)],
    }


@VARIATIONS.register("attributes")
@dataclasses.dataclass(kw_only=True)
class Attributes(Variation):
    """Hue, size, rotation, position and lighting of a rendered figure; class and shape are those of the base.

    A latent in the unit cube has one coordinate per number that may change: hue 1, size 1, rotation 3, position 2,
    lighting 4 (intensity, ambient, specular, direction). Letters have their own range of sizes. Bases are scenes of
    SHAPES and CHARS, without the corruptions that test splits add to some images. Differentiable in the latent.
    """

    name = "attributes"
    vary: Sequence[str] = tuple(FIELDS)
    """Attributes that may change."""
    side: int | None = None
    """Side of the rendered images; None: that of the data."""
    font: str | Path | None = None
    """Font file for letters, as for `farout.load("chars")`."""

    def __post_init__(self) -> None:
        if isinstance(self.vary, str) or not isinstance(self.vary, Sequence) or not self.vary:
            raise ValueError(f"vary must list one or more of {', '.join(FIELDS)}, got {self.vary!r}")
        for name in self.vary:
            if name not in FIELDS:
                raise unknown("attribute to vary:", name, FIELDS)
        self.vary = tuple(dict.fromkeys(self.vary))
        if self.side is not None:
            check_at_least(self.side, SMALLEST_SIDE, "side")
        if self.font is not None:
            glyphs.digest(self._font)  # raise now if the font cannot be read

    @property
    def dim(self) -> int:
        """Number of latent coordinates: one per number that may change."""
        return sum(self._widths)

    @property
    def _widths(self) -> list[int]:
        return [len(ranges(SHAPES)[name]) for name in self.vary]

    @property
    def _font(self) -> Path | None:
        return None if self.font is None else Path(self.font)

    def suited(self, shape: tuple[int, ...]) -> Self:
        if len(shape) != 3 or shape[0] != 3 or shape[1] != shape[2]:
            raise ValueError(f"attributes renders square images of 3 channels, got data of shape {tuple(shape)}")
        return self if self.side is not None else dataclasses.replace(self, side=shape[1])

    def base(self, images: ImageSet, indices: ArrayLike) -> Scenes:
        """Return the scenes that these images were rendered from."""
        selected = as_indices(indices, len(images))
        while isinstance(images, Subset):
            selected = images.indices[selected]
            images = images.parent
        if not isinstance(images, Drawn):
            raise TypeError(
                f"attributes varies rendered images, got {images!r}; use farout.load('shapes') or 'chars', with "
                "side= for another size (a resized set has no scenes)"
            )
        if images.letters is not None and images.letters != glyphs.digest(self._font):
            raise ValueError(
                f"{images.name} is rendered in the font {images.font}, got font={self.font}; give the same"
            )
        return images.configurations.scenes_at(selected)

    def decode(self, z: Tensor, base: Scenes) -> Tensor:
        """Render the scenes of `base` with these latents [B, dim]: float32 [B, 3, side, side] in [0, 1]."""
        if not isinstance(base, Scenes):
            raise TypeError(
                f"attributes varies scenes, got {type(base).__name__}; base(images, indices) returns those of a set"
            )
        check_latents(z, len(base), self.dim)
        if self.side is None:
            raise ValueError(
                "the side of the images to render is not known: use suited((3, side, side)), or give side="
            )
        return draw(self.scenes(z, base), self.side, self._font)

    def identity(self) -> dict[str, Any]:
        """Return the settings, the digest of the font's letters, and the renderer version."""
        settings = {"vary": list(self.vary), "side": self.side, "letters": glyphs.digest(self._font)}
        return {"name": self.name, "version": self.version, "params": settings, "renderer": renderer.VERSION}

    def scenes(self, z: Tensor, base: Scenes) -> Scenes:
        """Return the scenes of `base` with the attributes that the latents encode."""
        letter = (base.kind >= KINDS.index(GLYPHS[0])).long().to(z.device)
        low, high = self._bounds(z)[letter].unbind(-1)  # [B, dim]
        values = (low + (high - low) * z).split(self._widths, 1)
        fields = {FIELDS[name]: value for name, value in zip(self.vary, values, strict=True)}
        shaped = {name: value.reshape(getattr(base, name).shape) for name, value in fields.items()}
        return dataclasses.replace(base, **shaped)

    def _bounds(self, z: Tensor) -> Tensor:
        """Return the lowest and highest value of every coordinate, for figures and for letters: [2, dim, 2]."""
        return z.new_tensor([[pair for name in self.vary for pair in ranges(world)[name]] for world in (SHAPES, CHARS)])
