"""Image sets over files: a list of files, or a folder with one sub-folder per class."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from farout.data.arrays import OUTLIER
from farout.data.encoded import EncodedSet
from farout.data.entries import FileEntries
from farout.data.pixels import SUFFIXES

OUTLIER_LIST = "outliers.txt"
"""File in a folder of images that lists the outliers to their own class."""


class FileSet(EncodedSet):
    """Image files below `root`; see `EncodedSet` for the options."""

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
        super().__init__(
            FileEntries(root, files), labels, name=name, classes=classes, side=side, crop=crop, channels=channels,
            attributes=attributes,
        )  # fmt: skip

    @property
    def root(self) -> Path:
        """Folder that the files' names are relative to."""
        return self.entries.place

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files, in order."""
        return tuple(self.entries.names)


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
    found, folders = list[str](), [folder]
    while folders:
        place = folders.pop()
        with os.scandir(root / place) as inside:
            for entry in inside:
                name = f"{place}/{entry.name}"
                if entry.is_dir():
                    if not entry.name.startswith(".") and not entry.is_symlink():
                        folders.append(name)
                elif _is_image(entry.name):
                    _check_entry(entry)
                    found.append(name)
    return sorted(found)


def _check_entry(entry: os.DirEntry[str]) -> None:
    """Raise an error for a pipe, a device or a link to one: reading it might never end."""
    if not entry.is_file(follow_symlinks=False):  # which asks the disk nothing
        _check_regular(Path(entry.path))


def _check_regular(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}); replace or remove it") from error
    if not stat.S_ISREG(mode):
        raise ValueError(f"{path} has the name of an image but is a pipe, a device or a folder; remove it")


def _is_image(name: str) -> bool:
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in SUFFIXES  # noqa: PTH122 it is ten times as fast
