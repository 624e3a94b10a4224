"""Batches: chunks, validation of indices and images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from farout.devices import to_device

CHUNK = 64
"""Images per chunk: the unit of randomness, of progress and of parallel work."""


def chunks(total: int, size: int = CHUNK) -> Iterator[slice]:
    """Return the consecutive slices of at most `size` that cover `range(total)`."""
    return (slice(start, min(start + size, total)) for start in range(0, total, size))


def parts(rows: Tensor, size: int) -> Sequence[Tensor]:
    """Return the rows in parts of at most `size`; up to `size` rows are not split, so that a trace has no split."""
    return (rows,) if len(rows) <= size else rows.split(size)


def as_indices(indices: ArrayLike, total: int) -> NDArray[np.int64]:
    """Return indices as an int64 array. Raise if they are not integers in `range(total)`."""
    array = np.asarray(indices)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"indices must be integers, got {array.dtype}")
    array = array.astype(np.int64).reshape(-1)
    if array.size and (array.min() < 0 or array.max() >= total):
        raise IndexError(
            f"indices run from {array.min()} to {array.max()}, the set has {total} images (0 to {total - 1})"
        )
    return array


def as_images(images: Any, device: str | torch.device = "cpu") -> Tensor:
    """Return a batch as float32 [B, C, H, W] in [0, 1] on `device`. Raise for anything else."""
    if isinstance(images, str):
        raise TypeError(f"expected images [B, C, H, W], got {images!r}; farout.load reads sets by name or path")
    try:
        tensor = torch.as_tensor(images)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"expected images [B, C, H, W], got {type(images).__name__} ({error})") from error
    if tensor.numel() == 0 and len(tensor):
        raise ValueError(f"expected images of at least one pixel, got shape {tuple(tensor.shape)}")
    check_images(tuple(tensor.shape), str(tensor.dtype), tensor.is_floating_point())
    tensor = tensor.to(torch.float32)
    if tensor.numel():  # before a copy to a GPU, which nobody then waits for
        low, high = tensor.aminmax()
        if not (low >= -1e-3 and high <= 1 + 1e-3):
            bad = int(tensor.isnan().sum())
            got = f"{bad} NaN" if bad else f"values from {low:.4g} to {high:.4g}"
            hint = "; images are normalized by farout.Network(module, mean=…, std=…), not before" if low < -1e-3 else ""
            raise ValueError(f"expected images in [0, 1], got {got}{hint}")
    return to_device(tensor, torch.device(device) if isinstance(device, str) else device)


def check_images(shape: tuple[int, ...], dtype: str, floating: bool) -> None:
    """Raise if data of this shape and type are not float images [B, C, H, W]."""
    if len(shape) != 4 or shape[1] not in (1, 3):
        hint = "; channels come first: .permute(0, 3, 1, 2)" if len(shape) == 4 and shape[3] in (1, 3) else ""
        raise ValueError(f"expected images [B, C, H, W] with 1 or 3 channels, got shape {shape}{hint}")
    if not floating:
        raise TypeError(f"expected float images in [0, 1], got {dtype}; divide 8-bit images by 255")
