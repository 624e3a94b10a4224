"""Smallest and largest values of the rows of every class, exact in any order of the rows.

Points are rows with a class each. Few points can have the same bounds as many rows: at most two for each class.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

CLASSES = "classes"
"""Name of the points' classes, [N]; all other entries of points are rows [N, …]."""


def bound(how: str, classes: Tensor, rows: Tensor, count: int) -> Tensor:
    """Return the smallest ("amin") or largest ("amax") values of every class, [count, …]; ±∞ for a class without rows.

    rows: [N, D, E].
    """
    bounds = rows.new_full((count, *rows.shape[1:]), math.inf if how == "amin" else -math.inf)
    return bounds.scatter_reduce_(0, classes[:, None, None].expand_as(rows), rows, how)


def extremes(points: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return points with the same bounds: of each class its smallest and its largest values, or its only row."""
    classes, members, sizes = points[CLASSES].unique(return_inverse=True, return_counts=True)
    many = sizes > 1
    fewer = {CLASSES: torch.cat([classes, classes[many]])}
    for name, rows in points.items():
        if name != CLASSES:
            low, high = (bound(how, members, rows, len(classes)) for how in ("amin", "amax"))
            fewer[name] = torch.cat([low, high[many]])
    return fewer


def joined(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the extremes of two groups of points."""
    return extremes({name: torch.cat([rows, second[name]]) for name, rows in first.items()})
