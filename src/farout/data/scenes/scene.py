"""What is to be drawn: one figure per image, described by numbers."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

FLAT = (
    "circle", "square", "rp6", "rp8", "eq_triangle",
    "ellipse", "rectangle", "rp7", "rp9", "is_triangle", "random",
)  # fmt: skip
SOLID = ("sphere_3d", "cube_3d", "cylinder_3d", "ellipsoid_3d", "cuboid_3d", "cone_3d")
GLYPHS = tuple("abcdefghij0123456789")
KINDS = FLAT + SOLID + GLYPHS
"""Every figure the renderer knows; a scene names one by its place here."""
BACKGROUND = 155 / 255
"""The grey behind every figure: HSV (0, 0, 155)."""
MOST_POINTS = 12
"""Points of a random outline, at most."""


@dataclasses.dataclass(frozen=True)
class Scenes:
    """A batch of scenes. Lengths are shares of the image's side, angles are degrees.

    The continuous ones (hue, size, rotation, position, light) may require gradients: see `renderer.draw`.
    """

    kind: Tensor
    """Place in `KINDS`, int64 [B]."""
    hue: Tensor
    """Of the figure, at full saturation and value, [B]."""
    size: Tensor
    """Diameter of a circle, side of a square, height of a letter's line (the font size); see `primitives`, [B]."""
    rotation: Tensor
    """About the axes x (right), y (up) and z (towards the viewer), z first, [B, 3]. Flat figures turn about z only."""
    position: Tensor
    """Center of the figure from the center of the image, x to the right and y upwards, [B, 2]."""
    light: Tensor
    """Intensity (all figures), ambient and specular strength and direction in the camera plane (solids), [B, 4]."""
    aspect: Tensor
    """Second and third extent over the first, [B, 2]; 1 where the kind has none."""
    points: Tensor
    """Number of points of a random outline, int64 [B]."""
    smoothness: Tensor
    """Of a random outline, percent: 0 joins its points by lines, 100 by a smooth curve, [B]."""
    radii: Tensor
    """Of a random outline's points over the mean radius, [B, MOST_POINTS]."""

    def __len__(self) -> int:
        return len(self.kind)

    def __getitem__(self, places: Tensor | slice) -> Scenes:
        return Scenes(**{name: value[places] for name, value in self.columns().items()})

    def columns(self) -> dict[str, Tensor]:
        """The fields by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def to(self, device: str | torch.device) -> Scenes:
        """The same on another device."""
        return Scenes(**{name: value.to(device) for name, value in self.columns().items()})
