"""Scenes for the renderer's tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.data.scenes.renderer import draw
from farout.data.scenes.scene import BACKGROUND, KINDS, MOST_POINTS, Scenes

ASPECTS = {"ellipse", "rectangle", "is_triangle", "ellipsoid_3d", "cuboid_3d"}
PRIMITIVES = ("ellipse", "is_triangle", "rp7", "random", "ellipsoid_3d", "cuboid_3d", "cylinder_3d", "cone_3d", "g")
"""A kind of every family of formulas."""


def scene(kind: str, **fields: Any) -> Scenes:
    """One red figure in the middle, lit evenly; a solid shows its silhouette in one color."""
    values: dict[str, Any] = {
        "hue": 0.0,
        "size": 0.5,
        "rotation": [0.0, 0.0, 0.0],
        "position": [0.0, 0.0],
        "light": [1.0, 1.0, 0.0, 0.0],
        "aspect": [1.0, 1.0],
        "smoothness": 50.0,
        "radii": [1.0] * MOST_POINTS,
    } | fields
    points = torch.tensor([values.pop("points", 7)])
    tensors = {name: torch.tensor([value], dtype=torch.float64) for name, value in values.items()}
    return Scenes(kind=torch.tensor([KINDS.index(kind)]), points=points, **tensors)


def some(total: int, seed: int = 0, kinds: tuple[str, ...] = KINDS) -> Scenes:
    """Scenes of all kinds in turn, everything else at random."""
    rng = np.random.default_rng(seed)
    names = np.array([kinds[i % len(kinds)] for i in range(total)])
    rotation = rng.integers(-18, 19, (total, 3)) * 10.0
    aspect = np.where(np.isin(names, list(ASPECTS))[:, None], rng.uniform(0.4, 0.7, (total, 2)), 1)
    light = rng.uniform((0.4, 0, 0, 0), (1, 0.5, 0.9, 360), (total, 4))
    columns = {
        "kind": np.array([KINDS.index(name) for name in names]),
        "hue": rng.uniform(0, 360, total),
        "size": rng.uniform(0.15, 0.6, total),
        "rotation": rotation,
        "position": rng.uniform(-0.3, 0.3, (total, 2)),
        "light": light,
        "aspect": aspect,
        "points": rng.integers(5, 13, total),
        "smoothness": rng.uniform(0, 100, total),
        "radii": rng.uniform(0.7, 1.3, (total, MOST_POINTS)),
    }
    return Scenes(**{name: torch.from_numpy(value) for name, value in columns.items()})


def cover(scenes: Scenes, side: int) -> NDArray[np.float64]:
    """Share of each pixel that a red figure covers, [side, side]: what is left of the gray in the green channel."""
    image: Tensor = draw(scenes, side)[0, 1].double()
    return (1 - image / BACKGROUND).numpy()


def samples(side: int, finer: int = 16) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points of a grid `finer` times as fine as the pixels', as scenes count x and y."""
    steps = (np.arange(side * finer) + 0.5) / (side * finer) - 0.5
    x, y = np.meshgrid(steps, -steps)
    return x, y


def shares(inside: NDArray[np.bool_], side: int) -> NDArray[np.float64]:
    """Share of each pixel's samples that are inside."""
    finer = inside.shape[0] // side
    return inside.reshape(side, finer, side, finer).mean((1, 3))
