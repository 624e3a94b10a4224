"""Color and light.

From the paper: colors by hue, Phong lighting with ambient and specular strength, a light that stands off the camera by
80 within the camera plane. Ours: that 80 means percent of the side, the camera stands one side in front of the figure
and far enough for parallel rays, the light is directional (taken from the figure's center), diffuse strength is what
ambient leaves of 1, and the highlight has exponent 32.
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
    at_least,
    at_most,
    constant,
    floor,
    formula,
    single,
    unit,
)
from farout.data.scenes.scene import BACKGROUND

OFFSET, CAMERA = 0.8, 1.0
"""Of the light from the camera and of the camera from the figure, in sides."""
ASIDE = OFFSET / math.hypot(OFFSET, CAMERA)
AHEAD = constant(CAMERA / math.hypot(OFFSET, CAMERA))
"""Direction of the light: within the image plane, and towards the viewer."""
GREY = constant(BACKGROUND)


@formula
def color(hue: Number) -> tuple[Number, Number, Number]:
    """HSV to RGB at full saturation and value."""
    h = hue / 60.0
    h = h - 6.0 * floor(h / 6.0)
    return unit(absolute(h - 3.0) - 1.0), unit(2.0 - absolute(h - 2.0)), unit(2.0 - absolute(h - 4.0))


@formula
def common(s: Any, side: int, reach: tuple[Number, Number]) -> tuple[Number, ...]:
    """What every figure's parameters begin with: center and half box in pixels, color, intensity."""
    red, green, blue = color(s[HUE])
    return (
        single((s[X] + 0.5) * side - 0.5),
        single((0.5 - s[Y]) * side - 0.5),
        single(reach[0] * side),
        single(reach[1] * side),
        single(red),
        single(green),
        single(blue),
        single(s[INTENSITY]),
    )


@formula
def light(s: Any, ux: Number, uy: Number) -> tuple[Number, ...]:
    """What follows for solids: direction of the light along (ux, uy) and (-uy, ux), and its strengths."""
    c, d = turn(s[LIGHT_ANGLE])
    i = s[INTENSITY]
    return (
        single((c * ux + d * uy) * ASIDE),
        single((d * ux - c * uy) * ASIDE),
        single(i * s[AMBIENT]),
        single(i * (1.0 - s[AMBIENT])),
        single(i * s[SPECULAR]),
    )


@formula
def phong(x: Number, y: Number, z: Number, p: Any) -> tuple[Number, Number]:
    """Factor of the color and highlight added to it, where the surface has this normal."""
    facing = x * p[8] + y * p[9] + z * AHEAD
    glint = at_least(TWO * facing * z - AHEAD, ZERO)
    glint = glint * glint
    glint = glint * glint
    glint = glint * glint
    glint = glint * glint
    return p[10] + p[11] * at_least(facing, ZERO), p[12] * (glint * glint)


@formula
def blend(cover: Number, factor: Number, highlight: Number, channel: Number) -> Number:
    """The figure over the background, one channel."""
    return (at_most(channel * factor + highlight, ONE) - GREY) * cover + GREY
