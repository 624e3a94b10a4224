"""Image sets over files: a list of files, or a folder with one sub-folder per class."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from farout.core import ImageSet
from farout.data.arrays import OUTLIER, as_floats
from farout.data.pixels import SUFFIXES, Unreadable, decode
from farout.data.procedural import check_at_least
from farout.data.sizes import one_size
from farout.data.survey import Survey, survey
from farout.identity import digest, digest_arrays
from farout.tensors import as_indices

OUTLIER_LIST = "outliers.txt"
"""File in a folder of images that lists the outliers to their own class."""


class FileSet(ImageSet):
    """Image files below `root`, decoded when a batch is read; see `farout.data.pixels.decode`.

    `crop` cuts a square of that many pixels out of the center. `side` then resizes the shorter side to that many pixels
    and cuts out the central square. Without both, all images must have one size. Every file is read once for the
    survey: when the fingerprint (or, without both, the shape) is first needed, or `check` is called.
    """

    version = 1
    """Bumped by hand when the same files give other pixels."""

    def __init__(
        self,
        root: Path,
        files: Sequence[str],
        labels: ArrayLike | None = None,
        *,
        name: str,
        classes: tuple[str, ...] = (),
        side: int | None = None,
        crop: int | None = None,
        channels: int = 3,
        attributes: Mapping[str, NDArray[Any]] = MappingProxyType({}),
    ) -> None:
        if channels not in (1, 3):
            raise ValueError(f"{name}: channels must be 1 (gray) or 3 (color), got {channels!r}")
        self.root, self.files, self.name, self.classes = root, tuple(files), name, classes
        self.side = None if side is None else check_at_least(side, 1, f"{name}: side")
        self.crop = None if crop is None else check_at_least(crop, 1, f"{name}: crop")
        self.channels = channels
        self.labels = None if labels is None else np.asarray(labels, np.int64)
        self.attributes = attributes
        self._index = np.arange(len(self.files))

    def __len__(self) -> int:
        return len(self.files)

    @property
    def index(self) -> NDArray[np.int64]:
        return self._index

    @cached_property
    def shape(self) -> tuple[int, int, int]:  # type: ignore[override]
        if side := self.side or self.crop:
            return self.channels, side, side
        if not len(self):
            raise ValueError(f"{self.name}: no images, so no shape; pass side= for an empty set")
        width, height = one_size(self.check().sizes.tolist(), self.name)
        return self.channels, height, width

    def batch(self, indices: ArrayLike) -> Tensor:
        files = [self.root / self.files[index] for index in as_indices(indices, len(self))]
        images = [decode(file, self.side, self.channels, self.crop) for file in files]
        pixels = np.stack(images) if images else np.empty((0, *self.shape), np.uint8)
        return as_floats(pixels)

    def check(self) -> Survey:
        """Return the survey of all files; raise an error if files cannot be read or are too small."""
        if self.crop is not None:
            _check_crop(self._survey.sizes, self.files, self.crop, self.name)
        return self._survey

    def subset(self, indices: ArrayLike, name: str | None = None) -> FileSet:
        selected = as_indices(indices, len(self))
        files = [self.files[index] for index in selected]
        labels = None if self.labels is None else self.labels[selected]
        name = name or self.name
        attributes = {what: values[selected] for what, values in self.attributes.items()}
        part = FileSet(
            self.root, files, labels, name=name, classes=self.classes, side=self.side, crop=self.crop,
            channels=self.channels, attributes=attributes,
        )  # fmt: skip
        part._index = self._index[selected]
        return part

    @cached_property
    def _survey(self) -> Survey:
        return survey(self.root, self.files, self.name)

    def _fingerprint(self) -> str:
        labels = np.empty(0, np.int64) if self.labels is None else self.labels
        content = digest_arrays([("hashes", self.check().hashes), ("labels", labels), *self.attributes.items()])
        cut = [] if self.crop is None else [{"crop": self.crop}]
        return digest([self.version, self.side, self.channels, list(self.classes), list(self.files), content, *cut])


class FolderSet(FileSet):
    """Image set over a folder: one class per sub-folder (sorted by name), or images without labels.

    Class folders are searched recursively; hidden files and folders are skipped, and a sub-folder without images is no
    class. Images are sorted by class, then by relative path. An optional file outliers.txt lists images that are
    outliers to their own class, one relative path per line: their attribute "outlier" is 1, that of others 0.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        side: int | None = None,
        crop: int | None = None,
        channels: int = 3,
        name: str | None = None,
    ) -> None:
        root = Path(root)
        if not root.is_dir():
            raise FileNotFoundError(f"no folder {root}; expected a folder of images, or of one sub-folder per class")
        name = name or root.resolve().name
        files, labels, classes = scan(root)
        super().__init__(
            root, files, labels, name=name, classes=classes, side=side, crop=crop, channels=channels,
            attributes=_read_outlier_list(root, files),
        )  # fmt: skip


def _read_outlier_list(root: Path, files: Sequence[str]) -> dict[str, NDArray[np.int64]]:
    """Return the attribute "outlier" according to outliers.txt; an empty dictionary if there is no such file."""
    path = root / OUTLIER_LIST
    if not path.is_file():
        return {}
    named = set(path.read_text("utf-8").splitlines()) - {""}
    if unknown := named.difference(files):
        raise ValueError(
            f"{path} names {len(unknown):,} images that are not in {root}, such as {min(unknown)!r}; expected relative "
            "paths, one per line"
        )
    return {OUTLIER: np.array([file in named for file in files], np.int64)}


def scan(root: Path) -> tuple[list[str], NDArray[np.int64] | None, tuple[str, ...]]:
    """Return relative paths, labels (None without class folders) and class names of the images in a folder."""
    flat = sorted(entry.name for entry in root.iterdir() if _is_image(entry.name) and not entry.is_dir())
    for name in flat:
        _check_regular(root / name)
    folders = sorted(entry.name for entry in root.iterdir() if not entry.name.startswith(".") and entry.is_dir())
    found = {name: files for name in folders if (files := list_images(root, name))}
    if flat and found:
        raise ValueError(
            f"{root} has {len(flat):,} images next to {len(found)} folders of images ({', '.join(list(found)[:5])}); "
            "expected either images, or one sub-folder per class: move one kind elsewhere"
        )
    if not flat and not found:
        raise ValueError(f"{root} has no images; expected files ending in {', '.join(sorted(SUFFIXES))}")
    if flat:
        return flat, None, ()
    labels = np.repeat(np.arange(len(found)), [len(files) for files in found.values()])
    return [file for files in found.values() for file in files], labels, tuple(found)


def list_images(root: Path, folder: str) -> list[str]:
    """Return the image files in a folder and its sub-folders: sorted paths relative to `root`, with slashes."""
    found = []
    for place, folders, files in os.walk(root / folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        images = [Path(place) / file for file in files if _is_image(file)]
        for image in images:
            _check_regular(image)
        found += [image.relative_to(root).as_posix() for image in images]
    return sorted(found)


def _check_regular(path: Path) -> None:
    """Raise an error for a pipe, a device or a link to one: reading it might never end."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}); replace or remove it") from error
    if not stat.S_ISREG(mode):
        raise ValueError(f"{path} has the name of an image but is a pipe, a device or a folder; remove it")


def _is_image(name: str) -> bool:
    return not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES


def _check_crop(sizes: NDArray[np.int64], files: Sequence[str], crop: int, name: str) -> None:
    small = np.flatnonzero((sizes < crop).any(1))
    if len(small):
        width, height = sizes[small[0]]
        raise Unreadable(
            f"{name}: {len(small):,} of {len(files):,} images are smaller than crop={crop}, such as {files[small[0]]} "
            f"({width}×{height}); use a smaller crop, or remove them"
        )
