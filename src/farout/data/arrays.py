"""Image sets over arrays, in memory or memory-mapped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from farout.core import ImageSet
from farout.data.mapped import Mapped
from farout.data.stamps import Files
from farout.files import blocks, release
from farout.identity import Json, digest_arrays
from farout.tensors import as_indices

MOST_CLASSES = 100_000
"""Maximum number of classes of a set; larger labels are most likely not class indices."""
OUTLIER = "outlier"
"""Attribute that is 1 for images that are outliers to their own class, such as defective parts, and 0 for others."""
MEASURES = ("mi", "lambda_s")
"""Attributes of generated images that are real numbers: mutual information, and the weight of the semantic loss."""
ATTRIBUTE_ARRAYS = ("severity", "clean_correct", "success", OUTLIER, "class_label", *MEASURES)
"""Arrays of an .npz file that are read as attributes of the images."""


class ArraySet(ImageSet):
    """Image set over an array: uint8 NHWC or NHW, or float NCHW in [0, 1].

    attributes: one integer per image, such as the `severity` of a corruption or the `success` of
    an attack; of `MEASURES`, a real number. files: what holds all of it, with the stamps before it was read; then its
    fingerprint is remembered. part: which part of these files it is.
    """

    def __init__(
        self,
        images: ArrayLike | Mapped,
        labels: ArrayLike | None = None,
        *,
        name: str = "arrays",
        classes: tuple[str, ...] = (),
        attributes: Mapping[str, ArrayLike | None] = MappingProxyType({}),
        files: Files | None = None,
        part: str = "",
    ) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"name must be a text that is not empty, got {name!r}")
        self.name, self.files, self.part = name, files, part
        self._mapped = images if isinstance(images, Mapped) else None
        self._images = _as_nchw(_array(images), name)
        if self._images.dtype != np.uint8:
            self._remembered("range", lambda: _check_range(self._images, name))
        self.shape = self._images.shape[1:]
        self.labels = None if labels is None else _labels(labels, len(self._images), f"{name}: labels")
        self.classes = classes or numbered(self.labels)
        self.attributes = {
            key: (_measures if key in MEASURES else _counts)(values, len(self._images), f"{name}: {key}")
            for key, values in attributes.items()
            if values is not None
        }

    def __len__(self) -> int:
        return len(self._images)

    def batch(self, indices: ArrayLike) -> Tensor:
        selected = as_indices(indices, len(self))
        if self._mapped is None:
            return as_floats(self._images[selected])
        self._mapped.check()
        images = as_floats(self._images[selected])
        release(self._images)
        return images

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, without the content of a mapped file."""
        return self.__dict__ if self._mapped is None else {**self.__dict__, "_images": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._mapped is not None:
            self._mapped.check()
            self._images = _as_nchw(self._mapped.open(), self.name)

    def _fingerprint(self) -> str:
        return str(self._remembered("fingerprint", self._hash))

    def _remembered(self, kind: str, compute: Callable[[], Json]) -> Json:
        """Return a fact of the content, remembered by the stamps of the files that hold it."""
        return compute() if self.files is None else self.files.remembered(kind, self.part, compute)

    def _hash(self) -> str:
        labels = np.empty(0, np.int64) if self.labels is None else self.labels
        return digest_arrays([("images", self._images), ("labels", labels), *self.attributes.items()])


def _array(images: ArrayLike | Mapped) -> NDArray[Any]:
    if isinstance(images, Mapped):
        return images.open()
    return images.numpy(force=True) if isinstance(images, Tensor) else np.asarray(images)


def as_floats(images: NDArray[Any]) -> Tensor:
    """Return images as float32 in [0, 1]; 8-bit values are divided by 255.

    This is done by numpy: torch would use all its threads, which takes a hundred times as long on shared cores.
    """
    scale = 255 if images.dtype == np.uint8 else 1
    return torch.from_numpy(np.ascontiguousarray(np.divide(images, np.float32(scale), dtype=np.float32)))


def as_bytes(images: Tensor) -> NDArray[np.uint8]:
    """Return images [B, C, H, W] in [0, 1] as uint8 [B, H, W, C], rounded."""
    pixels = images.mul(255).round_().clamp_(0, 255).byte()
    return np.ascontiguousarray(pixels.permute(0, 2, 3, 1).cpu().numpy())


def _as_nchw(images: NDArray[Any], name: str) -> NDArray[Any]:
    """Return a view of the array as NCHW; raise an error if shape or type do not fit."""
    if images.dtype == np.uint8 and (images.ndim == 3 or (images.ndim == 4 and images.shape[3] in (1, 3))):
        nchw = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
    elif np.issubdtype(images.dtype, np.floating) and images.ndim == 4 and images.shape[1] in (1, 3):
        nchw = images
    else:
        raise ValueError(
            f"{name}: expected uint8 images [N, H, W, 1 or 3] or [N, H, W], or float images [N, 1 or 3, H, W] in "
            f"[0, 1], got {images.dtype} {list(images.shape)}"
        )
    if not images.size:
        raise ValueError(f"{name}: the set is empty (shape {list(images.shape)}); expected at least one image")
    return nchw


def _check_range(images: NDArray[Any], name: str) -> bool:
    """Return True; raise an error if values are not in [0, 1] or NaN. Large arrays are read in blocks."""
    missing, low, high = 0, np.inf, -np.inf
    for part in blocks(images):
        missing += int(np.isnan(part).sum())
        low, high = min(low, np.fmin.reduce(part, axis=None)), max(high, np.fmax.reduce(part, axis=None))  # without NaN
    if missing or low < 0 or high > 1:
        span = f"values from {low:.4g} to {high:.4g}" if missing < images.size else "no other values"
        raise ValueError(
            f"{name}: float images must lie in [0, 1], got {missing:,} NaN and {span}; divide 0..255 images by 255"
        )
    return True


def _counts(values: ArrayLike, total: int, what: str) -> NDArray[np.int64]:
    array = np.asarray(values)
    array = array.astype(np.int64) if array.dtype == bool else array
    if array.shape != (total,) or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{what}: expected {total} whole numbers, got {array.dtype} of shape {array.shape}")
    if array.size and array.min() < 0:
        raise ValueError(f"{what}: expected whole numbers from 0 on, got {array.min()}")
    if array.size and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{what}: expected whole numbers below 2^63, got {array.max()}")
    return array.astype(np.int64)


def _measures(values: ArrayLike, total: int, what: str) -> NDArray[np.float64]:
    array = np.asarray(values)
    if array.shape != (total,) or not np.issubdtype(array.dtype, np.floating) or not np.isfinite(array).all():
        raise ValueError(f"{what}: expected {total} finite numbers, got {array.dtype} of shape {array.shape}")
    return array.astype(np.float64)


def _labels(values: ArrayLike, total: int, what: str) -> NDArray[np.int64]:
    labels = _counts(values, total, what)
    if labels.size and labels.max() >= MOST_CLASSES:
        raise ValueError(
            f"{what}: {labels.max()} would need {int(labels.max()) + 1:,} classes, the limit is {MOST_CLASSES:,}; "
            "number the classes from 0 on: numpy.unique(labels, return_inverse=True)[1]"
        )
    return labels


def numbered(labels: NDArray[np.int64] | None) -> tuple[str, ...]:
    """Return the names of classes that are known by number only."""
    return () if labels is None or not labels.size else tuple(map(str, range(int(labels.max()) + 1)))
