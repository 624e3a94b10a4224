"""Parameters of SHAPES and CHARS: the values of every attribute for inliers, and when the attribute is shifted.

Values are those of the paper's Appendix A unless a comment says otherwise. Lengths are fractions of the image's side,
which the paper does not state: images are rendered at any side.
"""

from __future__ import annotations

from typing import NamedTuple

from farout.data.scenes.scene import GLYPHS

ATTRIBUTES = ("hue", "class", "size", "rotation", "position", "lighting")
"""Attributes that can be shifted, alone or together."""
INLIER_HUES = tuple(range(30, 151, 15))
OUTLIER_HUES = tuple(range(210, 331, 15))
CORRUPTIONS = (
    "gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise", "gaussian_blur",
    "glass_blur", "spatter", "contrast", "brightness", "saturate",
)  # fmt: skip
SEVERITIES = (1, 2)
CORRUPTED = 0.3
"""Fraction of the images of a test split that carry a corruption."""
SPLITS = {"train": 100_000, "val": 5_000, "test": 5_000}
"""Images per split; every "test/…" split has as many as "test"."""

Range = tuple[float, float]


class Light(NamedTuple):
    """Ranges of the light: intensity, and ambient and specular strength (solids only)."""

    intensity: Range
    ambient: Range
    specular: Range


# Intensity and all shifted ranges are our choice: the paper shifts hue and class only.
INLIER_LIGHT = Light((1, 1), (0.25, 0.5), (0.15, 0.3))
OUTLIER_LIGHT = Light((0.35, 0.65), (0.02, 0.12), (0.6, 0.9))
OUTSIDE: Range = (0.25, 0.5)
"""Fraction of the figure outside the image at a shifted position."""
ASPECT: Range = (0.4, 0.7)
"""Ratio of shorter extents to the longest; our choice, the paper states none."""
POINTS: tuple[int, int] = (5, 12)
SMOOTHNESS: Range = (30, 80)
RADII: Range = (0.7, 1.3)


class World(NamedTuple):
    """Family of figures: SHAPES or CHARS."""

    name: str
    inliers: tuple[str, ...]
    outliers: tuple[str, ...]
    size: Range
    shifted_size: Range
    turn: int
    """Maximum rotation of flat figures in degrees, in either direction, in steps of `step`."""
    step: int


SOLID_TURN, SOLID_STEP = 60, 10
"""Maximum rotation of solids about each axis, and its step, in degrees."""

# The paper's sizes are diameters of circles and "side lengths for polygons". For rp6 to rp9 they are diameters of the
# circumscribed circle here: most polygons with sides of 35 to 55 % would not fit into the image.
SHAPES = World(
    "shapes",
    ("circle", "square", "rp6", "rp8", "eq_triangle", "sphere_3d", "cube_3d", "cylinder_3d"),
    ("ellipse", "rectangle", "rp7", "rp9", "is_triangle", "random", "ellipsoid_3d", "cuboid_3d", "cone_3d"),
    size=(0.35, 0.55),
    shifted_size=(0.15, 0.3),
    turn=180,
    step=10,
)
# The paper's font sizes, 60 to 150, are pixels; the side is taken as 224.
CHARS = World(
    "chars",
    tuple(c for c in GLYPHS if c in "abcde01234"),
    tuple(c for c in GLYPHS if c in "fghij56789"),
    size=(60 / 224, 150 / 224),
    shifted_size=(25 / 224, 50 / 224),
    turn=60,
    step=5,
)
WORLDS = {world.name: world for world in (SHAPES, CHARS)}
