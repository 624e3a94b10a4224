"""Linear interpolation of images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def interpolate(images: Tensor, rows: NDArray[Any], columns: NDArray[Any]) -> Tensor:
    """Interpolate images [..., H, W] linearly at these rows and columns; edges are repeated."""
    return _along(_along(images, rows, -2), columns, -1)


def _along(images: Tensor, places: NDArray[Any], dim: int) -> Tensor:
    places = np.clip(places, 0, images.shape[dim] - 1)
    before = np.floor(places)
    behind, share = np.minimum(before + 1, images.shape[dim] - 1), places - before
    shares = torch.from_numpy(share).to(images.device, images.dtype)
    first, second = (
        images.index_select(dim, torch.from_numpy(index).long().to(images.device)) for index in (before, behind)
    )
    return first.add_(second.sub_(first).mul_(shares[:, None] if dim == -2 else shares))


def enlarged_length(side: int, zoom: float) -> int:
    """Return the length of the central part of a side that fills the side when enlarged."""
    return math.ceil(side / zoom)


def enlarged_coordinates(side: int, zoom: float) -> NDArray[Any]:
    """Return the coordinates in the central part of each of `side` enlarged pixels; the ends of both coincide.

    Rounding may give more pixels than the side has; half of the surplus is then cut off at the start.
    """
    part = enlarged_length(side, zoom)
    count = round(part * zoom)
    surplus = (count - side) // 2
    return np.linspace(0, part - 1, count)[surplus : surplus + side]
