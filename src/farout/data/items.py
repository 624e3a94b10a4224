"""Image sets over float arrays, sequences of images, torch and Hugging Face data sets, and loaders; read in chunks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader

from farout.core import ImageSet
from farout.data.arrays import as_floats
from farout.data.pixels import decode, from_pil
from farout.data.sizes import one_size
from farout.identity import bytes_of, digest, digest_arrays
from farout.tensors import CHUNK, as_images, as_indices, chunks

IMAGE_COLUMNS = ("image", "img")
"""Column names for the image of a row."""
LABEL_COLUMNS = ("label", "labels", "target")
"""Column names for its class."""


class FloatSet(ImageSet):
    """Float images [N, C, H, W] in [0, 1], a tensor or an array; values are checked when they are read."""

    labels = None

    def __init__(self, images: Tensor | NDArray[Any], name: str) -> None:
        self.images, self.name = images, name
        self.shape = (int(images.shape[1]), int(images.shape[2]), int(images.shape[3]))

    def __len__(self) -> int:
        return len(self.images)

    def batch(self, indices: ArrayLike) -> Tensor:
        rows: Any = self.images[as_indices(indices, len(self))]  # indexing copies, so read-only inputs become writable
        return as_images(rows, rows.device if isinstance(rows, Tensor) else "cpu")

    def _fingerprint(self) -> str:
        images = bytes_of(self.images) if isinstance(self.images, Tensor) else self.images
        return digest_arrays([("images", images), ("labels", np.empty(0, np.int64))])


class ItemSet(ImageSet):
    """Image set over a sequence; items are read when a batch is read.

    items: a sequence whose items are images (Pillow images, paths, arrays, tensors), pairs (image, class), or
        rows {"image": …, "label": …}: a list, a torch `Dataset`, a Hugging Face data set.
    side: resize the shorter side to this and cut out the central square. channels: of Pillow images and files.
    Labels and fingerprint need a pass over all items.
    """

    def __init__(self, items: Any, *, name: str, side: int | None = None, channels: int = 3) -> None:
        self.items, self.name, self.side, self.channels = items, name, side, channels

    def __len__(self) -> int:
        return len(self.items)

    @cached_property
    def shape(self) -> tuple[int, int, int]:  # type: ignore[override]
        if not len(self):
            raise ValueError(f"{self.name} is empty; expected at least one image")
        channels, height, width = self.batch([0]).shape[1:]
        return channels, height, width

    def batch(self, indices: ArrayLike) -> Tensor:
        order = as_indices(indices, len(self)).tolist()
        return self._images([_parts(self.items[index])[0] for index in order]) if order else torch.empty(0, *self.shape)

    @cached_property
    def labels(self) -> NDArray[np.int64] | None:  # type: ignore[override]
        return self._content[0] if len(self) and _parts(self.items[0])[1] is not None else None

    @cached_property
    def classes(self) -> tuple[str, ...]:  # type: ignore[override]
        if self.labels is None:
            return ()
        named = _class_names(self.items)
        return named or tuple(map(str, range(int(self.labels.max()) + 1)))

    def _fingerprint(self) -> str:
        labels, pixels = self._content
        return digest(["items", 1, pixels, digest_arrays([("labels", np.empty(0) if labels is None else labels)])])

    @cached_property
    def _content(self) -> tuple[NDArray[np.int64] | None, str]:
        """Labels (None unless every image has one) and hash of all pixels."""
        labels, total = list[int | None](), hashlib.sha256()
        for images, known in self._parts():
            total.update(f"{tuple(images.shape)}".encode())
            total.update(np.ascontiguousarray(images.cpu().numpy()).data)
            labels += known
        values = np.array([-1 if label is None else label for label in labels], np.int64)
        return (values if len(values) and values.min() >= 0 else None), total.hexdigest()

    def _parts(self) -> Iterator[tuple[Tensor, list[int | None]]]:
        """Yield images and labels of all items, one chunk at a time."""
        for part in chunks(len(self)):
            pairs = [_parts(self.items[index]) for index in range(part.start, part.stop)]
            yield self._images([image for image, _ in pairs]), [label for _, label in pairs]

    def _images(self, items: list[Any]) -> Tensor:
        """Return the images of one chunk as a tensor; raise an error if their sizes differ."""
        images = [as_image(item, self.side, self.channels) for item in items]
        if len({image.shape[1:] for image in images}) > 1:
            one_size([(image.shape[2], image.shape[1]) for image in images], self.name)
        if len({image.shape[0] for image in images}) > 1:
            raise ValueError(f"{self.name}: some images have 1 channel and some 3; convert them to the same number")
        return torch.stack(images)


class LoaderSet(ItemSet):
    """Image set over a torch `DataLoader`, with its order, its `collate_fn` and its worker processes."""

    def __init__(self, loader: DataLoader[Any], *, name: str, side: int | None = None, channels: int = 3) -> None:
        super().__init__(loader.dataset, name=name, side=side, channels=channels)
        self.loader = loader

    def __len__(self) -> int:
        total, size = len(self.items), self.loader.batch_size or 1
        return total // size * size if self.loader.drop_last else total

    def __iter__(self) -> Iterator[Tensor]:
        return (part for images, _ in self._parts() for part in images.split(CHUNK))

    def batch(self, indices: ArrayLike) -> Tensor:
        order = as_indices(indices, len(self)).tolist()
        if not order:
            return torch.empty(0, *self.shape)
        return self._unpack_batch(self.loader.collate_fn([self.items[index] for index in order]))[0]

    @cached_property
    def labels(self) -> NDArray[np.int64] | None:  # type: ignore[override]
        return self._content[0]

    def _parts(self) -> Iterator[tuple[Tensor, list[int | None]]]:
        return (self._unpack_batch(batch) for batch in self.loader)

    def _unpack_batch(self, batch: Any) -> tuple[Tensor, list[int | None]]:
        found, labels = _image_and_label(batch)
        images = self._images(list(found))
        return images, [None] * len(images) if labels is None else [_label(label) for label in labels]


def as_image(item: Any, side: int | None, channels: int) -> Tensor:
    """Return one image as float32 [C, H, W]."""
    if isinstance(item, Image.Image):
        return as_floats(from_pil(item, side, channels))
    if isinstance(item, str | Path):
        return as_floats(decode(Path(item).expanduser(), side, channels))
    if not isinstance(item, Tensor | np.ndarray):
        raise TypeError(f"expected an image (a Pillow image, a path, an array or a tensor), got {type(item).__name__}")
    image = _channels_first(item)
    return image if side is None else _center_square(image, side)


def _channels_first(item: Tensor | NDArray[Any]) -> Tensor:
    """Return an array or tensor of one image as float [C, H, W]; 8-bit values are divided by 255."""
    shape, tensor = tuple(item.shape), torch.tensor(item) if isinstance(item, np.ndarray) else item.detach()
    if tensor.dtype == torch.uint8:
        if tensor.ndim == 2:
            tensor = tensor[None]
        elif channels_last(shape, isinstance(item, Tensor)):
            tensor = tensor.permute(2, 0, 1)
        tensor = tensor / 255
    if tensor.ndim != 3 or tensor.shape[0] not in (1, 3) or not tensor.is_floating_point():
        raise ValueError(
            "expected one image, uint8 [H, W, 1 or 3] or [H, W], or float [1 or 3, H, W] in [0, 1], got "
            f"{tensor.dtype} {list(shape)}"
        )
    return tensor.float()


def channels_last(shape: tuple[int, ...], tensor: bool) -> bool:
    """Return True if channels come last in this shape; if both fit, tensors have them first and arrays last."""
    first, last = shape[-3] in (1, 3), shape[-1] in (1, 3)
    return last and not (first and tensor)


def _center_square(image: Tensor, side: int) -> Tensor:
    """Return the central square of an image, resized."""
    height, width = image.shape[1:]
    edge = min(height, width)
    top, left = (height - edge) // 2, (width - edge) // 2
    middle = image[None, :, top : top + edge, left : left + edge]
    return middle[0] if edge == side else F.interpolate(middle, (side, side), mode="bilinear", antialias=True)[0]


def _parts(item: Any) -> tuple[Any, int | None]:
    """Return the image of an item and its class (None if it has none)."""
    image, label = _image_and_label(item)
    return image, _label(label)


def _image_and_label(item: Any) -> tuple[Any, Any]:
    """Return the image and the label of an item, or the images and labels of a batch."""
    if isinstance(item, Mapping):
        image = next((key for key in IMAGE_COLUMNS if key in item), None)
        if image is None:
            raise ValueError(
                f"expected a column {' or '.join(map(repr, IMAGE_COLUMNS))}, got {', '.join(map(str, item))}"
            )
        return item[image], next((item[key] for key in LABEL_COLUMNS if key in item), None)
    if isinstance(item, tuple) or (isinstance(item, list) and item and isinstance(item[0], Tensor)):
        return item[0], item[1] if len(item) > 1 else None
    return item, None


def _label(label: Any) -> int | None:
    """Return a class index; None for anything else."""
    whole = isinstance(label, int | np.integer) and not isinstance(label, bool)
    if isinstance(label, Tensor | np.ndarray) and label.ndim == 0:
        value = label.item()
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    return int(label) if whole else None


def _class_names(items: Any) -> tuple[str, ...]:
    """Return the class names of a data set: `classes` of torchvision, the label's `features` of Hugging Face."""
    features = getattr(items, "features", None)
    column = (
        next((features[key] for key in LABEL_COLUMNS if key in features), None)
        if isinstance(features, Mapping)
        else None
    )
    names = getattr(column, "names", None) or getattr(items, "classes", None)
    return tuple(map(str, names)) if isinstance(names, list | tuple) else ()
