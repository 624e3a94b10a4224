"""Names and paths -> image sets."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farout import aliases
from farout.core import ImageSet
from farout.data import array_sets, file_sets, toy
from farout.data import shapes_chars as drawn
from farout.data.arrays import read_npz
from farout.data.folder import FileSet, FolderSet
from farout.data.procedural import Noise, at_least
from farout.data.published import read_npy
from farout.registry import Registry, unknown


def _check_split(maker: Callable[..., Any]) -> None:
    known = inspect.signature(maker).parameters.values()
    if not any(parameter.name == "split" or parameter.kind is parameter.VAR_KEYWORD for parameter in known):
        raise TypeError(f"a data set is asked for its splits: give {maker.__name__} a parameter split, such as 'test'")


DATASETS: Registry[ImageSet] = Registry("dataset", ImageSet, aliases.DATASETS, title="data set", check=_check_split)
"""Makers of the named sets: `maker(split, **options) -> ImageSet`."""

_MAKERS: list[Callable[..., ImageSet]] = [
    array_sets.cifar10,
    array_sets.cifar100,
    array_sets.svhn,
    array_sets.mnist,
    array_sets.fashion_mnist,
    file_sets.celeba,
    file_sets.tiny_imagenet,
    file_sets.imagenet,
    file_sets.mvtec,
    drawn.shapes,
    drawn.chars,
]
for _maker in _MAKERS:
    DATASETS.register(_maker.__name__)(_maker)
DATASETS.register("toy")(toy.Toy)
DATASETS.register("noise")(Noise)

_OUTLIER_SPLITS: dict[str, Sequence[str]] = {
    "toy": tuple(toy.OUTLIER_SPLITS),
    "shapes": drawn.OUTLIER_SPLITS,
    "chars": drawn.OUTLIER_SPLITS,
}
_SPLIT_FOLDERS = ("train", "val", "test")
_TABLE_OPTIONS = ("side", "font")
_FOLDER_OPTIONS = ("side", "crop", "channels", "name")


def names() -> list[str]:
    """The names `load` knows."""
    return DATASETS.names()


def outlier_splits(name: str) -> list[str]:
    """The outlier splits a named set brings with it, hardest first; none for most sets."""
    DATASETS[name]
    return list(_OUTLIER_SPLITS.get(name, []))


def load(name_or_path: str | Path, split: str = "test", *, limit: int | None = None, **options: Any) -> ImageSet:
    """A set by name ("cifar10", "shapes", …; see `names`), from an .npz file or from a folder of images.

    An .npz file holds `images` and `labels`, or `{split}_images` and `{split}_labels`; `severity` beside them says how
    corrupted an image is, and split "3" are those of severity 3. An .npy file is one of CIFAR-10-C, with labels.npy
    beside it: `load("CIFAR-10-C/fog.npy", "3")`. A folder that has the
    sub-folders "train", "val" or "test" is read from the one called `split`; otherwise it has one sub-folder per
    class, or images only, and is the same set for every split (options `side`, `crop`, `channels`; see `FolderSet`). A
    .parquet file is a table of configurations, whose images are drawn (options `side`, `font`).

    `limit` keeps the first images; where images are sorted by class it keeps about as many of each class.
    """
    if limit is not None:
        at_least(limit, 1, "limit")
    images = _open(name_or_path, split, options)
    if limit is not None and limit < len(images):
        images = images.subset(first(images, limit))
    if isinstance(images, FileSet):
        images.check()
    return images


def first(images: ImageSet, n: int) -> NDArray[np.int64]:
    """The places `load` keeps for `limit=n`: the first n, or about n/classes per class of a set sorted by class."""
    labels = images.labels
    if labels is None or (np.diff(labels) < 0).any():
        return np.arange(min(n, len(images)))
    _, starts, counts = np.unique(labels, return_index=True, return_counts=True)
    rank = np.arange(len(labels)) - np.repeat(starts, counts)
    taken = np.minimum.outer(counts, np.arange(counts.max() + 1)).sum(0)  # by the number of rounds
    rounds = int(np.searchsorted(taken, n, side="right")) - 1
    rest, more = np.flatnonzero(rank == rounds), n - int(taken[rounds])
    extra = rest[np.arange(more) * len(rest) // max(more, 1)]
    return np.sort(np.concatenate([np.flatnonzero(rank < rounds), extra]))


def _open(name_or_path: str | Path, split: str, options: dict[str, Any]) -> ImageSet:
    path = Path(name_or_path).expanduser()
    if isinstance(name_or_path, str) and name_or_path in DATASETS:
        return DATASETS.create(name_or_path, split=split, **options)
    if path.suffix in (".npz", ".npy") and path.is_file():
        return _arrays(path, split, options)
    if path.suffix == ".parquet" and path.is_file():
        return _table(path, options)
    if path.is_dir():
        return _folder(path, split, options)
    if path.exists():
        raise ValueError(
            f"{path} is a file of a kind we do not read; expected an .npz or .npy file, a .parquet table of "
            "configurations, a folder of images or a name"
        )
    if isinstance(name_or_path, Path) or path.suffix or "/" in name_or_path or os.sep in name_or_path:
        raise FileNotFoundError(
            f"no file or folder {path} (looked in {Path.cwd()}); expected an .npz or .npy file, a folder of images, "
            f"or one of {', '.join(names())}"
        )
    return DATASETS.create(name_or_path, split=split, **options)


def makers(name_or_path: str) -> Iterator[Callable[..., ImageSet]]:
    """Yield what `load` calls with the options of a set: its maker, the reader of tables or of folders."""
    if name_or_path in DATASETS:
        yield DATASETS[name_or_path]
    elif Path(name_or_path).suffix == ".parquet":
        yield drawn.from_table


def _arrays(path: Path, split: str, options: dict[str, Any]) -> ImageSet:
    if options:
        raise TypeError(f"{path}: an {path.suffix} file takes no options, got {', '.join(options)}")
    images = read_npz(path, split) if path.suffix == ".npz" else read_npy(path)
    severity = images.attributes.get("severity")
    if severity is None or not split.isdecimal():
        return images
    chosen = np.flatnonzero(severity == int(split))
    if not len(chosen):
        raise unknown(f"severity of {path}:", split, map(str, np.unique(severity)))
    return images.subset(chosen)


def _table(path: Path, options: dict[str, Any]) -> ImageSet:
    for key in options:
        if key not in _TABLE_OPTIONS:
            raise unknown("option for a table of configurations:", key, _TABLE_OPTIONS)
    return drawn.from_table(path, **options)


def _folder(path: Path, split: str, options: dict[str, Any]) -> ImageSet:
    for key in options:
        if key not in _FOLDER_OPTIONS:
            raise unknown("option for a folder:", key, _FOLDER_OPTIONS)
    return FolderSet(_split_folder(path, split), **{"name": path.resolve().name, **options})


def split_folders(path: Path) -> list[str]:
    """The splits a folder is divided into: its sub-folders called train, val or test.

    A single one among others is a class of that name (CIFAR-100 has trains).
    """
    inside = [p.name for p in path.iterdir() if p.is_dir() and not p.name.startswith(".")]
    splits = [name for name in _SPLIT_FOLDERS if name in inside]
    return splits if len(splits) > 1 or len(inside) == 1 else []


def _split_folder(path: Path, split: str) -> Path:
    """The folder of this split, where the folder is divided into splits; else the folder itself."""
    splits = split_folders(path)
    if not splits:
        return path
    if split not in splits:
        raise unknown(f"split of {path}:", split, splits)
    return path / split
