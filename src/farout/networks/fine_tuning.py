"""Checkpoints as the start of further training: a new head for other classes, positions for another side."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

POSITIONS = "pos_embed"
"""Name of a vision transformer's learned positions [1, prefix + side², D], in timm and in our own."""


def adapted(tensors: Mapping[str, Tensor], network: nn.Module) -> dict[str, Tensor]:
    """Return a checkpoint's tensors, with the network's own head if the checkpoint's has another shape.

    Positions of a vision transformer are resampled to the network's grid of patches.
    """
    own, name = network.state_dict(), getattr(network, "head_name", "")
    if not name:
        raise TypeError(
            f"fine-tuning gives a network with a head other classes, got a {type(network).__name__} without one; "
            "wrap the module as farout.Network(module, mean=…, std=…), or create it with classes"
        )
    head = {key: value for key, value in own.items() if key.startswith(f"{name}.")}
    fits = all(key in tensors and tensors[key].shape == value.shape for key, value in head.items())
    found = dict(tensors) if fits else {**tensors, **head}
    if POSITIONS in own and POSITIONS in found:
        found[POSITIONS] = resampled(found[POSITIONS], own[POSITIONS])
    return found


def resampled(positions: Tensor, like: Tensor) -> Tensor:
    """Return positions [1, prefix + n², D] on the grid of others [1, prefix + m², D] (Dosovitskiy et al. 2021, 3.2).

    The prefix (class and register tokens) is kept; the grid is interpolated bicubically with antialiasing, as timm
    does. Positions that fit already, and those that are no such grid, are returned unchanged.
    """
    if positions.shape == like.shape or positions.ndim != 3 or positions.shape[2] != like.shape[2]:
        return positions
    side = math.isqrt(like.shape[1])
    prefix = like.shape[1] - side**2
    known = math.isqrt(max(0, positions.shape[1] - prefix))
    if known == 0 or known**2 + prefix != positions.shape[1]:
        return positions
    grid = positions[:, prefix:].float().unflatten(1, (known, known)).permute(0, 3, 1, 2)
    grown = F.interpolate(grid, (side, side), mode="bicubic", antialias=True).flatten(2).transpose(1, 2)
    return torch.cat([positions[:, :prefix], grown.to(positions.dtype)], 1)
