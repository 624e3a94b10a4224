"""Pairing of generated with real images, for the perceptual term of an objective."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Pairing = Literal["random", "same_class", "nearest"]


def same_class(generated: Tensor, real: Tensor) -> Tensor:
    """Return for every generated image the index of a real image with the same label, from labels [N] and [M].

    Of several the next after its own index, so that different images get different partners; if there is none, the
    real image at its own index.
    """
    own = torch.arange(len(generated), device=real.device)[:, None]
    distance = (torch.arange(len(real), device=real.device) - own) % len(real)
    return torch.where(generated[:, None] == real, distance, distance + len(real)).argmin(1)


def nearest(generated: Tensor, real: Tensor) -> Tensor:
    """Return for every generated image the index of the real image with the nearest features, [N, D] and [M, D]."""
    return torch.cdist(generated.detach().float(), real.float()).argmin(1)
