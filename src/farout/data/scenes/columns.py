"""Table of a batch of scenes: float64 columns that the formulas read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from farout.data.scenes.scene import KINDS, MOST_POINTS, Scenes

KIND, HUE, SIZE = 0, 1, 2
TURN_X, TURN_Y, TURN_Z = 3, 4, 5
X, Y = 6, 7
INTENSITY, AMBIENT, SPECULAR, LIGHT_ANGLE = 8, 9, 10, 11
ASPECT, ASPECT_2 = 12, 13
POINTS, SMOOTHNESS, RADII = 14, 15, 16

ANGLE = (-1e6, 1e6)
BOUNDS: dict[str, list[tuple[float, float]]] = {
    "kind": [(0, len(KINDS) - 1)],
    "hue": [ANGLE],
    "size": [(0.001, 8)],
    "rotation": [ANGLE] * 3,
    "position": [(-8, 8)] * 2,
    "light": [(0, 8), (0, 1), (0, 8), ANGLE],
    "aspect": [(0.05, 1)] * 2,
    "points": [(3, MOST_POINTS)],
    "smoothness": [(0, 100)],
    "radii": [(0.1, 4)] * MOST_POINTS,
}
"""Lower and upper bound of each number of each field, in the order of the table."""
NAMES = [name for name, bounds in BOUNDS.items() for _ in bounds]
LOWEST, HIGHEST = np.array([pair for bounds in BOUNDS.values() for pair in bounds]).T


def table(scenes: Scenes, row: str = "scene", names: Sequence[str] = NAMES) -> Tensor:
    """Return the scenes as float64 [B, RADII + MOST_POINTS], columns by the indices above; differentiable.

    An error names the scene by `row` and its index in the batch, and the number by its name in `names`.
    """
    fields = [value if value.ndim == 2 else value[:, None] for value in (getattr(scenes, name) for name in BOUNDS)]
    columns = torch.cat([field.double() for field in fields], 1)
    if columns.shape[1] != len(NAMES):
        raise ValueError(f"scenes have {columns.shape[1]} numbers each, expected {len(NAMES)}; see Scenes for shapes")
    _check(columns, row, names)
    return columns


def _check(columns: Tensor, row: str, names: Sequence[str]) -> None:
    values = columns.detach().cpu().numpy()
    allowed = (values >= LOWEST) & (values <= HIGHEST)  # false for NaN
    if not allowed.all():
        place, column = np.argwhere(~allowed)[0]
        raise outside(f"{row} {place}", names[column], values[place, column], column)


def outside(row: str, name: str, value: float, column: int) -> ValueError:
    """Return the error for a number that lies outside of the bounds of its column."""
    return ValueError(f"{row}: {name} is {value:g}; it must lie in {LOWEST[column]:g}..{HIGHEST[column]:g}")
