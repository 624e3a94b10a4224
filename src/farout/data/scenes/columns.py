"""A batch of scenes as one table of float64 columns: what formulas read."""

from __future__ import annotations

import torch
from torch import Tensor

from farout.data.scenes.scene import Scenes

KIND, HUE, SIZE = 0, 1, 2
TURN_X, TURN_Y, TURN_Z = 3, 4, 5
X, Y = 6, 7
INTENSITY, AMBIENT, SPECULAR, LIGHT_ANGLE = 8, 9, 10, 11
ASPECT, ASPECT_2 = 12, 13
POINTS, SMOOTHNESS, RADII = 14, 15, 16


def table(scenes: Scenes) -> Tensor:
    """Float64 [B, RADII + MOST_POINTS], in the order of the places above; gradients pass."""
    s = scenes
    single = [s.kind, s.hue, s.size]
    many = [s.rotation, s.position, s.light, s.aspect]
    columns = [c[:, None] for c in single] + many + [c[:, None] for c in (s.points, s.smoothness)] + [s.radii]
    return torch.cat([c.double() for c in columns], 1)
