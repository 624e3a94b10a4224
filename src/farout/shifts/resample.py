"""Images read between their pixels."""

from __future__ import annotations

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
