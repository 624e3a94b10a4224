"""Open image sets by path: arrays, folders, shards and tables of configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from farout.core import ImageSet
from farout.data import shapes_chars as drawn
from farout.data.folder import FolderSet
from farout.data.npz import list_npz_arrays, read_npz
from farout.data.parquet import image_columns
from farout.data.patterns import expand, is_pattern, title_of
from farout.data.pixels import SUFFIXES
from farout.data.published import IMAGES, read_npy
from farout.data.shards import load_shards, pattern_splits, shard_splits, shards_in
from farout.registry import unknown

_SPLIT_FOLDERS = ("train", "val", "test")
_TABLE_OPTIONS = ("side", "font")
_FOLDER_OPTIONS = ("side", "crop", "channels", "name")
FORMATS = (
    "an .npz or .npy file, a folder of images, shards (.tar in WebDataset's layout, .parquet with a column of images; "
    "a folder of them or a pattern such as photos-{0000..0009}.tar), a .parquet table of configurations"
)
"""Formats that `load` reads besides names."""


def open_path(name: str, split: str, options: dict[str, Any]) -> ImageSet:
    """Return the set in a file or a folder, or in the shards that a pattern names."""
    path = Path(name).expanduser()
    if path.is_file() and path.suffix in _FILES:
        return _FILES[path.suffix](path, split, options)
    if path.is_dir():
        return _load_folder(path, split, options)
    if is_pattern(name):
        return _load_shards(expand(name), split, name, title_of(name), options)
    raise ValueError(f"{path} is a file of an unknown format; expected {FORMATS}, or a name")


def splits_of(name: str) -> list[str]:
    """Return the splits that a file, a folder or a pattern of shards has; none if it is one set, or is not there."""
    path = Path(name).expanduser()
    if path.is_dir():
        return split_folders(path) or shard_splits(shards_in(path))
    if path.is_file():
        return [array.removesuffix("_images") for array in list_npz_arrays(path)]
    return pattern_splits(name) if is_pattern(name) else []


def _load_arrays(path: Path, split: str, options: dict[str, Any], name: str | None = None) -> ImageSet:
    if options:
        raise TypeError(f"{path}: an {path.suffix} file takes no options, got {', '.join(options)}")
    images = read_npz(path, split, name) if path.suffix == ".npz" else read_npy(path, name)
    severity = images.attributes.get("severity")
    if severity is None or not split.isdecimal():
        return images
    selected = np.flatnonzero(severity == int(split))
    if not len(selected):
        raise unknown(f"severity of {path}:", split, map(str, np.unique(severity)))
    return images.subset(selected)


def _load_parquet(path: Path, split: str, options: dict[str, Any]) -> ImageSet:
    """Return the images of a shard, or those of a table of configurations."""
    if image_columns(path) is not None:
        return _load_shards([path], split, str(path), path.stem, options)
    for key in options:
        if key not in _TABLE_OPTIONS:
            raise unknown("option for a table of configurations:", key, _TABLE_OPTIONS)
    return drawn.load_table(path, **options)


def _only_npz(path: Path) -> Path | None:
    """Return the .npz file of a folder that holds a single one and no images; None for any other folder."""
    inside = [p for p in path.iterdir() if not p.name.startswith(".")]
    arrays = [p for p in inside if p.suffix == ".npz" and p.is_file()]
    others = [p for p in inside if p.is_dir() or p.suffix.lower() in SUFFIXES]
    return arrays[0] if len(arrays) == 1 and not others else None


def _load_tar(path: Path, split: str, options: dict[str, Any]) -> ImageSet:
    return _load_shards([path], split, str(path), path.stem, options)


_FILES = {".npz": _load_arrays, ".npy": _load_arrays, ".parquet": _load_parquet, ".tar": _load_tar}
"""Readers of files by suffix."""


def _load_shards(paths: list[Path], split: str, what: str, name: str, options: dict[str, Any]) -> ImageSet:
    _check_options(options, "shards")
    return load_shards(paths, split, what, **{"name": name, **options})


def _load_folder(path: Path, split: str, options: dict[str, Any]) -> ImageSet:
    if (only := _only_npz(path)) is not None:
        return _load_arrays(only, split, options)
    name, inside = path.resolve().name, _split_folder(path, split)
    if (inside / IMAGES).is_file():
        return _load_arrays(inside / IMAGES, split, options, name)
    if shards := shards_in(inside):
        return _load_shards(shards, split, str(inside), name, options)
    _check_options(options, "a folder")
    return FolderSet(inside, **{"name": name, **options})


def _check_options(options: dict[str, Any], what: str) -> None:
    for key in options:
        if key not in _FOLDER_OPTIONS:
            raise unknown(f"option for {what}:", key, _FOLDER_OPTIONS)


def split_folders(path: Path) -> list[str]:
    """Return the splits of a folder: its sub-folders named train, val or test.

    A single one next to other sub-folders is a class of that name (CIFAR-100 has trains).
    """
    inside = [p.name for p in path.iterdir() if p.is_dir() and not p.name.startswith(".")]
    splits = [name for name in _SPLIT_FOLDERS if name in inside]
    return splits if len(splits) > 1 or len(inside) == 1 else []


def _split_folder(path: Path, split: str) -> Path:
    """Return the sub-folder of this split; the folder itself if it has no splits."""
    splits = split_folders(path)
    if not splits:
        return path
    if split not in splits:
        raise unknown(f"split of {path}:", split, splits)
    return path / split
