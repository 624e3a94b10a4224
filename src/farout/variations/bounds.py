"""Bounds of variation settings, interpolation of latents between them, and checks that all variations share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Bounds = tuple[float, float]
"""Lowest and highest value of a setting."""


def parse_bounds(name: str, values: Any, low: float = -math.inf, high: float = math.inf) -> Bounds:
    """Parse a lowest and a highest value, both finite and in [low, high]; errors name the setting."""
    try:
        first, last = map(float, () if isinstance(values, str) else values)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a lowest and a highest value, got {values!r}") from None
    if not (math.isfinite(first) and math.isfinite(last) and low <= first <= last <= high):
        limits = f" in [{low:g}, {high:g}]" if math.isfinite(low) or math.isfinite(high) else ""
        raise ValueError(f"{name} must be a lowest and a highest value{limits}, in this order, got {values!r}")
    return first, last


def interpolate(z: Tensor, pairs: Sequence[Bounds]) -> Tensor:
    """Map latents [B, dim] linearly to values between the bounds: float64 [B, dim]."""
    low, high = torch.tensor(pairs, dtype=torch.float64, device=z.device).T
    values: Tensor = low + (high - low) * z
    return values


def check_latents(z: Tensor, count: int, dim: int) -> None:
    """Raise unless there is one latent of this dimension for each of `count` bases."""
    if z.shape != (count, dim):
        raise ValueError(f"expected latents [{count}, {dim}], got {list(z.shape)}")


def check_images(images: Any, name: str) -> None:
    """Raise unless this is a batch of float images with 1 or 3 channels."""
    if not isinstance(images, Tensor) or images.ndim != 4 or images.shape[1] not in (1, 3):
        got = f"shape {list(images.shape)}" if isinstance(images, Tensor) else type(images).__name__
        raise ValueError(f"{name} varies images [B, C, H, W] with 1 or 3 channels, got {got}")
    if not images.is_floating_point():
        raise TypeError(f"{name} varies float images in [0, 1], got {images.dtype}; divide 8-bit images by 255")


def check_shape(shape: tuple[int, ...], name: str) -> None:
    """Raise unless images of this shape have 1 or 3 channels."""
    if len(shape) != 3 or shape[0] not in (1, 3):
        raise ValueError(f"{name} varies images (C, H, W) with 1 or 3 channels, got data of shape {tuple(shape)}")
