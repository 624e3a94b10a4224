"""Sequential replacement of pixels by neighbors, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.compiling import compiled


def source_indices(offsets: Tensor, reach: int, height: int, width: int) -> Tensor:
    """Return the source of each pixel as an index into the flattened image: [B, height, width].

    `offsets` [B, rounds, 2, rows, columns] hold dy and dx of the pixels (reach + 1, …) to (side − reach). In each round
    these pixels are overwritten one by one, the last one first.
    """
    places = torch.arange(height * width).repeat(len(offsets), 1)
    _overwrite(places.numpy(), offsets.cpu().numpy(), width, reach + 1)
    return places.view(-1, height, width).to(offsets.device)


@compiled
def _overwrite(places: NDArray[Any], offsets: NDArray[Any], width: int, first: int) -> None:
    """Overwrite source indices in place; `first` is the row and the column of the first pixel with an offset."""
    count, rounds, _, rows, columns = offsets.shape
    for i in range(count):
        for step in range(rounds):
            for y in range(rows - 1, -1, -1):
                down, right = offsets[i, step, 0, y], offsets[i, step, 1, y]
                start = (first + y) * width + first
                for x in range(columns - 1, -1, -1):
                    source = np.uint64(start + x + down[x] * width + right[x])  # unsigned: twice as fast
                    places[i, np.uint64(start + x)] = places[i, source]
