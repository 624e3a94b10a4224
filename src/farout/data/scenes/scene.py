"""Scene parameters: one figure per image, described by numbers."""

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
"""All kinds of figures; a scene stores the index of its kind."""
BACKGROUND = 155 / 255
"""Gray value of the background: HSV (0, 0, 155)."""
MOST_POINTS = 12
"""Maximum number of points of a random outline."""


@dataclasses.dataclass(frozen=True)
class Scenes:
    """Batch of scenes. Lengths are fractions of the image's side, angles are degrees.

    The continuous fields (hue, size, rotation, position, light) may require gradients: see `renderer.draw`.
    """

    kind: Tensor
    """Index into `KINDS`, int64 [B]."""
    hue: Tensor
    """Hue of the figure, at full saturation and value, [B]."""
    size: Tensor
    """Diameter of a circle, side of a square, height of a letter's line (the font size); see `primitives`, [B]."""
    rotation: Tensor
    """Rotation about x (right), y (up) and z (toward the viewer), z first, [B, 3]. Flat figures: about z only."""
    position: Tensor
    """Center of the figure from the center of the image, x to the right and y upwards, [B, 2]."""
    light: Tensor
    """Intensity (all figures), ambient and specular strength and direction in the camera plane (solids), [B, 4]."""
    aspect: Tensor
    """Ratios of the second and third extent to the first, [B, 2]; 1 for kinds without aspect."""
    points: Tensor
    """Number of points of a random outline, int64 [B]."""
    smoothness: Tensor
    """Smoothness of a random outline in percent: 0 joins its points by lines, 100 by a smooth curve, [B]."""
    radii: Tensor
    """Radii of a random outline's points over the mean radius, [B, MOST_POINTS]."""

    def __len__(self) -> int:
        return len(self.kind)

    def __getitem__(self, places: Tensor | slice) -> Scenes:
        return Scenes(**{name: value[places] for name, value in self.columns().items()})

    def columns(self) -> dict[str, Tensor]:
        """Return the fields by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def to(self, device: str | torch.device) -> Scenes:
        """Return a copy on another device."""
        return Scenes(**{name: value.to(device) for name, value in self.columns().items()})
