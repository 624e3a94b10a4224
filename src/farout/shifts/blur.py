"""Corruptions that blur."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from farout.core import Params
from farout.shifts.catalog import register
from farout.shifts.corruption import Corruption, truncate
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
        return {"offsets": torch.randint(-reach, reach, (rounds, 2, rows, columns), generator=rng)}

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
    places = torch.arange(height * width, device=offsets.device).expand(len(offsets), -1)
    for step in offsets.unbind(1):
        places = places.gather(1, _one_round(step, reach, height, width))
    return places.view(-1, height, width)


def _one_round(step: Tensor, reach: int, height: int, width: int) -> Tensor:
    """Where each pixel's value comes from in one round, [B, height · width].

    A pixel takes what its source holds at that moment: the source's new value where the source comes later in the
    image, for then it was overwritten before. Such chains are followed by doubling, all pixels at a time.
    """
    size = height * width
    inside = (slice(None), slice(reach + 1, height - reach + 1), slice(reach + 1, width - reach + 1))
    old = torch.arange(size, device=step.device).repeat(len(step), 1)
    source = old.clone()
    source.view(-1, height, width)[inside] += step[:, 0] * width + step[:, 1]
    # a pointer below `size` asks for the new value at that place, one above it is an old value and the chain's end
    pointer = torch.where(source > old, source, source + size)
    ends = old + size
    while bool((pointer < size).any()):
        pointer = torch.cat([pointer, ends], 1).gather(1, pointer)
    return pointer - size
