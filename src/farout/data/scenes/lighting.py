"""Color and light.

From the paper: colors by hue, Phong lighting with ambient and specular strength, a light at distance 80 from the camera
within the camera plane. Our choices: 80 means percent of the side, the camera is one side in front of the figure,
projection is parallel, the light is directional (as seen from the figure's center), diffuse strength is 1 minus ambient
strength, and the highlight has exponent 32.
"""

from __future__ import annotations

import math
from typing import Any

from farout.data.scenes.columns import AMBIENT, HUE, INTENSITY, LIGHT_ANGLE, SPECULAR, X, Y
from farout.data.scenes.geometry import turn
from farout.data.scenes.ops import (
    ONE,
    TWO,
    ZERO,
    Number,
    absolute,
    as_float32,
    clamp_max,
    clamp_min,
    clamp_unit,
    constant,
    floor,
    formula,
)
from farout.data.scenes.scene import BACKGROUND

OFFSET, CAMERA = 0.8, 1.0
"""Distance of the light from the camera and of the camera from the figure, in sides."""
ASIDE = OFFSET / math.hypot(OFFSET, CAMERA)
AHEAD = constant(CAMERA / math.hypot(OFFSET, CAMERA))
"""Direction of the light: within the image plane, and toward the viewer."""
GRAY = constant(BACKGROUND)


@formula
def color(hue: Number) -> tuple[Number, Number, Number]:
    """Convert HSV to RGB at full saturation and value."""
    h = hue / 60.0
    h = h - 6.0 * floor(h / 6.0)
    return clamp_unit(absolute(h - 3.0) - 1.0), clamp_unit(2.0 - absolute(h - 2.0)), clamp_unit(2.0 - absolute(h - 4.0))


@formula
def common(s: Any, side: int, reach: tuple[Number, Number]) -> tuple[Number, ...]:
    """Return the first parameters of every figure: center and half box in pixels, color, intensity."""
    red, green, blue = color(s[HUE])
    return (
        as_float32((s[X] + 0.5) * side - 0.5),
        as_float32((0.5 - s[Y]) * side - 0.5),
        as_float32(reach[0] * side),
        as_float32(reach[1] * side),
        as_float32(red),
        as_float32(green),
        as_float32(blue),
        as_float32(s[INTENSITY]),
    )


@formula
def light(s: Any, ux: Number, uy: Number) -> tuple[Number, ...]:
    """Return the next parameters of solids: direction of the light along (ux, uy) and (-uy, ux), and its strengths."""
    c, d = turn(s[LIGHT_ANGLE])
    i = s[INTENSITY]
    return (
        as_float32((c * ux + d * uy) * ASIDE),
        as_float32((d * ux - c * uy) * ASIDE),
        as_float32(i * s[AMBIENT]),
        as_float32(i * (1.0 - s[AMBIENT])),
        as_float32(i * s[SPECULAR]),
    )


@formula
def phong(x: Number, y: Number, z: Number, p: Any) -> tuple[Number, Number]:
    """Return the factor of the color and the highlight added to it for a surface with this normal."""
    facing = x * p[8] + y * p[9] + z * AHEAD
    glint = clamp_min(TWO * facing * z - AHEAD, ZERO)
    glint = glint * glint
    glint = glint * glint
    glint = glint * glint
    glint = glint * glint
    return p[10] + p[11] * clamp_min(facing, ZERO), p[12] * (glint * glint)


@formula
def blend(cover: Number, factor: Number, highlight: Number, channel: Number) -> Number:
    """Blend the figure over the background, one channel."""
    return (clamp_max(channel * factor + highlight, ONE) - GRAY) * cover + GRAY
