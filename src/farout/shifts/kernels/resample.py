"""Images read between their pixels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def linear(images: Tensor, rows: NDArray[Any], columns: NDArray[Any]) -> Tensor:
    """Images [..., H, W] at these rows and columns, which may lie between pixels; beyond the edges they repeat."""
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


def enlarged_part(side: int, zoom: float) -> int:
    """Length of the middle part of a side that fills the side when enlarged."""
    return math.ceil(side / zoom)


def enlarged(side: int, zoom: float) -> NDArray[Any]:
    """Where in the middle part each of `side` enlarged pixels lies; first meets first and last meets last.

    Rounding may give more pixels than the side has. Then half of the surplus is cut off in front.
    """
    part = enlarged_part(side, zoom)
    count = round(part * zoom)
    surplus = (count - side) // 2
    return np.linspace(0, part - 1, count)[surplus : surplus + side]
