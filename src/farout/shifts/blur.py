"""Corruptions that blur."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.core import Params
from farout.shifts.catalog import register
from farout.shifts.corruption import Corruption, truncate
from farout.shifts.edges import compiled
from farout.shifts.filters import gaussian
from farout.shifts.tables import Row


@register
class GaussianBlur(Corruption):
    """A Gaussian filter."""

    name = "gaussian_blur"
    random = False

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        (sigma,) = constants
        return gaussian(images, sigma)


@register
class GlassBlur(Corruption):
    """A Gaussian filter, pixels replaced by neighbors at most d away, the filter again.

    The original exchanges pixels, but through views of one array, so that in effect a pixel is overwritten with its
    neighbor and the neighbor stays. So do we, for images of one channel too.
    """

    name = "glass_blur"

    def sample(self, shape: Sequence[int], rng: torch.Generator) -> Params:
        _, reach, rounds = map(int, self.constants(shape))
        rows, columns = (max(0, side - 2 * reach) for side in shape[-2:])
        return {"offsets": torch.randint(-reach, reach, (rounds, 2, rows, columns), generator=rng, dtype=torch.int16)}

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        sigma, reach, _ = constants
        sources = shuffled(params["offsets"], int(reach), images.shape[2], images.shape[3]).flatten(1)
        blurred = truncate(gaussian(images, sigma)).flatten(2)
        moved = blurred.gather(2, sources[:, None].expand_as(blurred)).view_as(images)
        return gaussian(moved, sigma)


def shuffled(offsets: Tensor, reach: int, height: int, width: int) -> Tensor:
    """Where each pixel's value comes from, as a place in the flattened image: [B, height, width].

    `offsets` [B, rounds, 2, rows, columns] hold dy and dx of the pixels (reach + 1, …) to (side − reach). In each
    round these pixels are overwritten one after the other, the last one first.
    """
    places = np.tile(np.arange(height * width).reshape(height, width), (len(offsets), 1, 1))
    _overwrite(places, offsets.cpu().numpy(), reach + 1)
    return torch.from_numpy(places).to(offsets.device)


@compiled
def _overwrite(places: NDArray[Any], offsets: NDArray[Any], first: int) -> None:
    """`first` is the row and the column of the first pixel that has an offset."""
    count, rounds, _, rows, columns = offsets.shape
    for i in range(count):
        for step in range(rounds):
            dy, dx = offsets[i, step, 0], offsets[i, step, 1]
            for y in range(rows - 1, -1, -1):
                for x in range(columns - 1, -1, -1):
                    places[i, y + first, x + first] = places[i, y + first + dy[y, x], x + first + dx[y, x]]
