"""From latents in the unit cube to values between bounds, and what every variation checks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Bounds = tuple[float, float]
"""The lowest and the highest value of a number."""


def bounds(name: str, given: Any, low: float = -math.inf, high: float = math.inf) -> Bounds:
    """A lowest and a highest value, both finite and in [low, high]; an error that names the setting otherwise."""
    try:
        first, last = map(float, () if isinstance(given, str) else given)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a lowest and a highest value, got {given!r}") from None
    if not (math.isfinite(first) and math.isfinite(last) and low <= first <= last <= high):
        limits = f" in [{low:g}, {high:g}]" if math.isfinite(low) or math.isfinite(high) else ""
        raise ValueError(f"{name} must be a lowest and a highest value{limits}, in this order, got {given!r}")
    return first, last


def between(z: Tensor, pairs: Sequence[Bounds]) -> Tensor:
    """What latents [B, dim] stand for, linear in every coordinate: float64 [B, dim]."""
    low, high = torch.tensor(pairs, dtype=torch.float64, device=z.device).T
    values: Tensor = low + (high - low) * z
    return values


def check_latents(z: Tensor, count: int, dim: int) -> None:
    """An error unless there is one latent of this dimension for each of `count` bases."""
    if z.shape != (count, dim):
        raise ValueError(f"expected latents [{count}, {dim}], got {list(z.shape)}")


def check_images(images: Any, who: str) -> None:
    """An error unless this is a batch of images with 1 or 3 channels."""
    if not isinstance(images, Tensor) or images.ndim != 4 or images.shape[1] not in (1, 3):
        got = f"shape {list(images.shape)}" if isinstance(images, Tensor) else type(images).__name__
        raise ValueError(f"{who} varies images [B, C, H, W] with 1 or 3 channels, got {got}")
    if not images.is_floating_point():
        raise TypeError(f"{who} varies float images in [0, 1], got {images.dtype}; divide 8-bit images by 255")


def check_shape(shape: tuple[int, ...], who: str) -> None:
    """An error unless images of this shape have 1 or 3 channels."""
    if len(shape) != 3 or shape[0] not in (1, 3):
        raise ValueError(f"{who} varies images (C, H, W) with 1 or 3 channels, got data of shape {tuple(shape)}")
