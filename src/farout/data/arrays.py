"""Image sets over arrays, in memory or memory-mapped, and the reader of .npz files."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from farout.core import ImageSet
from farout.data.stamps import Files
from farout.identity import digest_arrays
from farout.tensors import as_indices

MOST_CLASSES = 100_000
"""Maximum number of classes of a set; larger labels are most likely not class indices."""
_ALWAYS_FINE, _EXPANSION = 1 << 30, 100
"""Bytes that an array of an .npz file may always have; maximum ratio of unpacked to stored bytes of a larger one."""
OUTLIER = "outlier"
"""Attribute that is 1 for images that are outliers to their own class, such as defective parts, and 0 for others."""
MEASURES = ("mi", "lambda_s")
"""Attributes of generated images that are real numbers: mutual information, and the weight of the semantic loss."""
ATTRIBUTE_ARRAYS = ("severity", "clean_correct", "success", OUTLIER, "class_label", *MEASURES)
"""Arrays of an .npz file that are read as attributes of the images."""


class ArraySet(ImageSet):
    """Image set over an array: uint8 NHWC or NHW, or float NCHW in [0, 1].

    attributes: one integer per image, such as the `severity` of a corruption or the `success` of
    an attack; of `MEASURES`, a real number.
    """

    files: Files | None = None
    """Files that hold all of it, with their stamps before they were read: then its fingerprint is remembered."""
    part: str = ""
    """Part of these files that it holds."""

    def __init__(
        self,
        images: ArrayLike,
        labels: ArrayLike | None = None,
        *,
        name: str = "arrays",
        classes: tuple[str, ...] = (),
        attributes: Mapping[str, ArrayLike | None] = MappingProxyType({}),
    ) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"name must be a text that is not empty, got {name!r}")
        self.name = name
        self._images = _as_nchw(images.numpy(force=True) if isinstance(images, Tensor) else np.asarray(images), name)
        self.shape = self._images.shape[1:]
        self.labels = None if labels is None else _labels(labels, len(self._images), f"{name}: labels")
        self.classes = classes or _numbered(self.labels)
        self.attributes = {
            key: (_measures if key in MEASURES else _counts)(values, len(self._images), f"{name}: {key}")
            for key, values in attributes.items()
            if values is not None
        }

    def __len__(self) -> int:
        return len(self._images)

    def batch(self, indices: ArrayLike) -> Tensor:
        return as_floats(self._images[as_indices(indices, len(self))])

    def _fingerprint(self) -> str:
        if self.files is None:
            return self._hash()
        return str(self.files.remembered("fingerprint", self.part, self._hash))

    def _hash(self) -> str:
        labels = np.empty(0, np.int64) if self.labels is None else self.labels
        return digest_arrays([("images", self._images), ("labels", labels), *self.attributes.items()])


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


def list_npz_arrays(path: Path) -> list[str]:
    """Return the names of the arrays in an .npz file; an empty list for any other file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return list(file)
    except (OSError, ValueError, AttributeError, TypeError, zipfile.BadZipFile, EOFError, NotImplementedError):
        return []


def read_npz(path: Path, split: str = "test", name: str | None = None) -> ArraySet:
    """Return the set in an .npz file: arrays `images`, `labels` and `ATTRIBUTE_ARRAYS`, or `{split}_images` …."""
    try:
        files = Files.at(path)
        images = _read_npz(path, split, name or path.stem)
        images.files, images.part = files, split
        return images
    except (zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError, RuntimeError, TypeError) as error:
        raise ValueError(f"{path} is damaged or no .npz file ({error}); write it again with numpy.savez") from error


def _read_npz(path: Path, split: str, name: str) -> ArraySet:
    with zipfile.ZipFile(path) as archive, np.load(path, allow_pickle=False) as file:
        prefix = "" if "images" in file else f"{split}_"
        if f"{prefix}images" not in file:
            raise ValueError(
                f"{path} has the arrays {', '.join(file) or 'none'}; expected 'images' (and 'labels'), "
                f"or '{split}_images' (and '{split}_labels')"
            )
        for what in ("images", "labels", *ATTRIBUTE_ARRAYS):
            if f"{prefix}{what}" in file:
                _check_member(archive, f"{prefix}{what}.npy", path)
        images, labels = (file.get(f"{prefix}{what}") for what in ("images", "labels"))
        return ArraySet(
            images, labels, name=name, attributes={what: file.get(f"{prefix}{what}") for what in ATTRIBUTE_ARRAYS}
        )


def _check_member(archive: zipfile.ZipFile, member: str, path: Path) -> None:
    """Raise an error, before memory is allocated, for a wrong array size or an extreme compression ratio."""
    about = archive.getinfo(member)
    if about.file_size > max(_ALWAYS_FINE, _EXPANSION * about.compress_size):
        raise ValueError(
            f"{path}: {member} takes {about.compress_size:,} bytes in the file and {about.file_size:,} in memory; more "
            f"than {_EXPANSION} times the stored size is refused: write it with numpy.savez, which does not compress"
        )
    with archive.open(about) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        if math.prod(shape) * dtype.itemsize != about.file_size - file.tell():
            raise ValueError(f"{path} is damaged: {member} does not have the size of its header, {dtype} {list(shape)}")


def _as_nchw(images: NDArray[Any], name: str) -> NDArray[Any]:
    """Return the array as NCHW (a view if possible); raise an error if shape, type or values do not fit."""
    if images.dtype == np.uint8 and (images.ndim == 3 or (images.ndim == 4 and images.shape[3] in (1, 3))):
        nchw = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
    elif np.issubdtype(images.dtype, np.floating) and images.ndim == 4 and images.shape[1] in (1, 3):
        nchw = images
        if images.size and not (images.min() >= 0 and images.max() <= 1):  # false for NaN too
            numbers = images[~np.isnan(images)]
            span = f"values from {numbers.min():.4g} to {numbers.max():.4g}" if numbers.size else "no other values"
            raise ValueError(
                f"{name}: float images must lie in [0, 1], got {images.size - numbers.size:,} NaN and {span}; divide "
                "0..255 images by 255"
            )
    else:
        raise ValueError(
            f"{name}: expected uint8 images [N, H, W, 1 or 3] or [N, H, W], or float images [N, 1 or 3, H, W] in "
            f"[0, 1], got {images.dtype} {list(images.shape)}"
        )
    if not images.size:
        raise ValueError(f"{name}: the set is empty (shape {list(images.shape)}); expected at least one image")
    return nchw


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


def _numbered(labels: NDArray[np.int64] | None) -> tuple[str, ...]:
    return () if labels is None or not labels.size else tuple(map(str, range(int(labels.max()) + 1)))
