"""Convert arrays, files, data sets and loaders to an image set; panels, checks, searches and attacks all use this."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, SequentialSampler

from farout.core import ImageSet
from farout.data.arrays import ArraySet
from farout.data.catalog import load
from farout.data.items import FloatSet, ItemSet, LoaderSet, channels_last
from farout.data.pixels import SUFFIXES
from farout.tensors import check_images

EXPECTED = (
    "a Pillow image, the path of an image file, a list of them, an array, a tensor, a torch Dataset or DataLoader, a "
    "Hugging Face data set, a farout.ImageSet, or the name or path of a set"
)


def as_image_set(
    images: Any, *, side: int | None = None, channels: int = 3, name: str | None = None, what: str = "images"
) -> ImageSet:
    """Return an image set of `images`, which is read in chunks.

    images: a Pillow image, the path of an image file, a list of them; an array or tensor, uint8 [N, H, W, C], [N, H, W]
        or [H, W, C], float [N, C, H, W] or [C, H, W] in [0, 1]; a torch `Dataset` or `DataLoader`, a Hugging Face data
        set (column "image" or "img"), with items image or (image, class); an `ImageSet`, or the name or path of one.
    side: resize the shorter side to this and cut out the central square; required if image sizes differ.
    channels: of images that Pillow reads, 3 for color and 1 for gray.
    name: name of the set in results. what: name of the argument in errors.
    """
    if isinstance(images, ImageSet):
        if side is not None:
            raise TypeError(f"{images.name} is already an image set: pass side={side} where it is created")
        return images
    if isinstance(images, str | Path):
        return _from_path(Path(images).expanduser(), images, side, channels, name)
    if isinstance(images, Image.Image):
        return ItemSet([images], name=name or "image", side=side, channels=channels)
    if isinstance(images, list | tuple) and not is_images(images):
        images = _as_array(images, what)
    if isinstance(images, Tensor | np.ndarray):
        return _from_array(images, side, name or "images")
    _check_items(images, what)
    if isinstance(images, DataLoader):
        return LoaderSet(images, name=name or type(images.dataset).__name__, side=side, channels=channels)
    named = name or ("images" if isinstance(images, list | tuple) else type(images).__name__)
    return ItemSet(images, name=named, side=side, channels=channels)


def is_images(thing: object) -> bool:
    """Return True for types that hold images: sets, Pillow images, paths, data sets; False for plain arrays."""
    if isinstance(thing, list | tuple):
        return bool(thing) and all(is_image(item) for item in thing)
    return isinstance(thing, ImageSet | str | Path | Image.Image | DataLoader) or _is_data_set(thing)


def is_image(item: object) -> bool:
    """Return True for a single image, or a pair of an image and its class."""
    if isinstance(item, tuple):
        return len(item) > 1 and is_image(item[0])
    if isinstance(item, Tensor | np.ndarray):
        return item.ndim == 3 or (item.ndim == 2 and _is_8_bit(item))
    if isinstance(item, str | Path):
        return Path(item).suffix.lower() in SUFFIXES
    return isinstance(item, Image.Image)


def _is_data_set(thing: object) -> bool:
    others = (Tensor, np.ndarray, bytes, Mapping, IterableDataset)
    return isinstance(thing, Sized) and hasattr(thing, "__getitem__") and not isinstance(thing, others)


def _from_path(path: Path, name_or_path: str | Path, side: int | None, channels: int, name: str | None) -> ImageSet:
    if path.suffix.lower() in SUFFIXES and path.is_file():
        return ItemSet([path], name=name or path.stem, side=side, channels=channels)
    options: dict[str, Any] = {} if side is None else {"side": side}
    return load(name_or_path, **options)


def _as_array(images: list[Any] | tuple[Any, ...], what: str) -> NDArray[Any]:
    """Return nested lists of numbers as an array."""
    try:
        array = np.asarray(images)
    except (TypeError, ValueError, RuntimeError):
        array = np.empty(0, object)
    if not len(images) or not np.issubdtype(array.dtype, np.number):
        kinds = ", ".join(sorted({type(item).__name__ for item in images})) or "nothing"
        raise TypeError(f"{what}: expected a list of Pillow images, paths or arrays, got one of {kinds}")
    return array


def _from_array(images: Tensor | NDArray[Any], side: int | None, name: str) -> ImageSet:
    if side is not None:
        return ItemSet(images if images.ndim > 3 else images[None], name=name, side=side)
    if _is_8_bit(images):
        return _from_8_bit(images, name)
    images = images[None] if images.ndim == 3 and images.shape[0] in (1, 3) else images
    floats = images.is_floating_point() if isinstance(images, Tensor) else np.issubdtype(images.dtype, np.floating)
    check_images(tuple(images.shape), str(images.dtype), floats)
    return FloatSet(images, name)


def _from_8_bit(images: Tensor | NDArray[Any], name: str) -> ImageSet:
    tensor = isinstance(images, Tensor)
    array: NDArray[Any] = images.numpy(force=True) if isinstance(images, Tensor) else images
    first = array.ndim >= 3 and array.shape[-3] in (1, 3) and not channels_last(array.shape, tensor)
    if first and (tensor or array.ndim == 4):  # an array [3, H, W] is three gray images
        array = np.moveaxis(array, -3, -1)
    single = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3))
    return ArraySet(array[None] if single else array, name=name)


def _is_8_bit(images: Tensor | NDArray[Any]) -> bool:
    return images.dtype in (torch.uint8, np.uint8)


def _check_items(items: Any, what: str) -> None:
    """Raise an error unless this is a data set whose images can be read by index."""
    if isinstance(items, DataLoader):
        _check_loader(items, what)
    elif isinstance(items, Mapping):
        raise TypeError(
            f"{what}: expected one data set, got a mapping of {', '.join(map(str, items))}: pass one of them"
        )
    elif isinstance(items, Iterator | Dataset) and not _is_data_set(items):
        raise TypeError(f"{what}: {type(items).__name__} {_UNSIZED}")
    elif not _is_data_set(items):
        raise TypeError(f"{what}: expected {EXPECTED}; got {type(items).__name__}")


_UNSIZED = "has no length, and images are read by index: pass its images batch by batch, or as a list"


def _check_loader(loader: DataLoader[Any], what: str) -> None:
    if not _is_data_set(loader.dataset):
        raise TypeError(f"{what}: the data set {type(loader.dataset).__name__} of this loader {_UNSIZED}")
    batches = loader.batch_sampler
    if not isinstance(batches, BatchSampler) or not isinstance(batches.sampler, SequentialSampler):
        raise ValueError(
            f"{what}: this loader reads images in another order than its data set, so scores could not be matched to "
            "images: pass the data set itself, or DataLoader(dataset, batch_size=…, shuffle=False)"
        )
