"""Formulas of each kind of figure, and the meaning of its size, in fractions of the side:

- circle: diameter; ellipse: long axis, the other is `aspect` times that;
- square: side; rectangle: long side, the other is `aspect` times that;
- eq_triangle: side; is_triangle: the two equal sides, the base is `aspect` times that; both about their centroid;
- rp6 to rp9: diameter of the circle through the corners;
- random: twice the mean radius;
- sphere_3d: diameter; ellipsoid_3d: longest axis, the others by the two aspects;
- cube_3d: edge; cuboid_3d: longest edge, the others by the two aspects;
- cylinder_3d: diameter and height; cone_3d: diameter of the base and height; both about the middle of their axis,
  which stands upright (along y) before rotation;
- letters and digits: font size, about the center of the ink.

At size 0.55 every figure fits into the image under any rotation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from farout.data.scenes import flat, letters, outlines, solids, turned
from farout.data.scenes.glyphs import HULL
from farout.data.scenes.ops import gather
from farout.data.scenes.scene import GLYPHS, KINDS


class Primitive(NamedTuple):
    """Family of kinds with common formulas; see `flat` for these."""

    kinds: tuple[str, ...]
    reach: Callable[..., Any]
    prepare: Callable[..., Any]
    shade: Callable[..., Any]
    outline: Callable[..., None] | None = None
    """Function that fills the table of an image, five numbers per corner; None if images have no table of their own."""
    corners: int = 0
    """Number of points at the start of the table, which `reach` reads."""
    locate: Callable[..., Any] | None = None
    """Function that returns the table index of a pixel, if indices differ between pixels."""
    steps: tuple[int, ...] = ()
    """Offsets from that index to the entries that `shade` gets instead of the table."""

    def table_entries(self, x: Tensor, y: Tensor, p: Any, row: Tensor) -> Any:
        """Return the table or, with `locate`, its entries at each pixel: the last argument of `shade`."""
        if self.locate is None:
            return row
        place = self.locate(x, y, p)
        return [gather(row, place + step) for step in self.steps]


PRIMITIVES = (
    Primitive(("circle", "ellipse"), flat.ellipse_reach, flat.ellipse_prepare, flat.ellipse_shade),
    Primitive(
        ("square", "rectangle", "eq_triangle", "is_triangle"),
        flat.polygon_reach, flat.polygon_prepare, flat.quadrangle_shade, outlines.polygon_outline, outlines.EDGES,
    ),
    Primitive(
        ("rp6", "rp7", "rp8", "rp9"),
        flat.polygon_reach, flat.polygon_prepare, flat.polygon_shade, outlines.polygon_outline, outlines.EDGES,
    ),
    Primitive(
        ("random",),
        flat.star_reach, flat.star_prepare, flat.star_shade, outlines.star_outline, outlines.SECTORS,
        flat.star_locate, flat.CHORD,
    ),
    Primitive(("sphere_3d", "ellipsoid_3d"), solids.ellipsoid_reach, solids.ellipsoid_prepare, solids.ellipsoid_shade),
    Primitive(("cube_3d", "cuboid_3d"), solids.cuboid_reach, solids.cuboid_prepare, solids.cuboid_shade),
    Primitive(("cylinder_3d",), turned.turned_reach, turned.cylinder_prepare, turned.cylinder_shade),
    Primitive(("cone_3d",), turned.turned_reach, turned.cone_prepare, turned.cone_shade),
    Primitive(
        GLYPHS, letters.glyph_reach, letters.glyph_prepare, letters.glyph_shade, None, HULL,
        letters.glyph_locate, letters.CORNERS,
    ),
)  # fmt: skip
NUMBER_OF = np.array([next(i for i, p in enumerate(PRIMITIVES) if kind in p.kinds) for kind in KINDS])
"""Index into `PRIMITIVES` of each kind."""
