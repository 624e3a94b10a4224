"""Registry of the named image sets, and `load`, which opens a set by name or path."""

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
from farout.data import array_sets, file_sets, imagenet_sets, toy
from farout.data import shapes_chars as drawn
from farout.data.arrays import read_npz
from farout.data.folder import FileSet, FolderSet
from farout.data.pixels import SUFFIXES
from farout.data.procedural import Noise, check_at_least
from farout.data.published import read_npy
from farout.registry import Registry, unknown


def _check_split(builder: Callable[..., Any]) -> None:
    known = inspect.signature(builder).parameters.values()
    if not any(parameter.name == "split" or parameter.kind is parameter.VAR_KEYWORD for parameter in known):
        raise TypeError(f"a data set must have a parameter split, such as 'test': give {builder.__name__} one")


DATASETS: Registry[ImageSet] = Registry("dataset", ImageSet, aliases.DATASETS, title="data set", check=_check_split)
"""Named sets: `builder(split, **options) -> ImageSet`."""

_BUILDERS: list[Callable[..., ImageSet]] = [
    array_sets.cifar10,
    array_sets.cifar100,
    array_sets.svhn,
    array_sets.mnist,
    array_sets.fashion_mnist,
    file_sets.celeba,
    file_sets.tiny_imagenet,
    file_sets.imagenet,
    file_sets.mvtec,
    imagenet_sets.imagenet_200,
    imagenet_sets.imagenet_a,
    imagenet_sets.imagenet_c,
    imagenet_sets.imagenet_o,
    imagenet_sets.imagenet_r,
    imagenet_sets.imagenet_sketch,
    imagenet_sets.imagenet_v2,
    drawn.shapes,
    drawn.chars,
]
for _builder in _BUILDERS:
    DATASETS.register(_builder.__name__)(_builder)
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
    """Return the names of all registered sets."""
    return DATASETS.names()


def outlier_splits(name: str) -> list[str]:
    """Return the outlier splits of a named set, hardest first; most sets have none."""
    DATASETS[name]
    return list(_OUTLIER_SPLITS.get(name, []))


def load(name_or_path: str | Path, split: str = "test", *, limit: int | None = None, **options: Any) -> ImageSet:
    """Return a set by name ("cifar10", "shapes", …; see `names`), from an .npz file or from a folder of images.

    An .npz file holds `images` and `labels`, or `{split}_images` and `{split}_labels`; an array `severity` gives the
    severity of each image's corruption, and split "3" selects severity 3. An .npy file has the layout of CIFAR-10-C,
    with labels.npy next to it: `load("CIFAR-10-C/fog.npy", "3")`. A folder with sub-folders "train", "val" or "test" is
    read from the one named `split`; one with a single .npz file and no images is that file; any other folder has one
    sub-folder per class, or images only, and is the same set for every split (options `side`, `crop`, `channels`; see
    `FolderSet`). A .parquet file is a table of configurations, which are rendered (options `side`, `font`).

    `limit` keeps the first images; of a set sorted by class it keeps about the same number of each class.
    """
    if limit is not None:
        check_at_least(limit, 1, "limit")
    images = _open(name_or_path, split, options)
    if limit is not None and limit < len(images):
        images = images.subset(first_indices(images, limit))
    if isinstance(images, FileSet):
        images.check()
    return images


def first_indices(images: ImageSet, n: int) -> NDArray[np.int64]:
    """Return the indices that `limit=n` keeps: the first n, or about n/classes per class if sorted by class."""
    labels = images.labels
    if labels is None or (np.diff(labels) < 0).any():
        return np.arange(min(n, len(images)))
    _, starts, counts = np.unique(labels, return_index=True, return_counts=True)
    rank = np.arange(len(labels)) - np.repeat(starts, counts)
    taken = np.minimum.outer(counts, np.arange(counts.max() + 1)).sum(0)  # images after so many rounds of one per class
    rounds = int(np.searchsorted(taken, n, side="right")) - 1
    rest, more = np.flatnonzero(rank == rounds), n - int(taken[rounds])
    extra = rest[np.arange(more) * len(rest) // max(more, 1)]
    return np.sort(np.concatenate([np.flatnonzero(rank < rounds), extra]))


def _open(name_or_path: str | Path, split: str, options: dict[str, Any]) -> ImageSet:
    path = _path_of(name_or_path)
    if isinstance(name_or_path, str) and name_or_path in DATASETS:
        return DATASETS.create(name_or_path, split=split, **options)
    if path.suffix in (".npz", ".npy") and path.is_file():
        return _load_arrays(path, split, options)
    if path.suffix == ".parquet" and path.is_file():
        return _load_table(path, options)
    if path.is_dir():
        only = _only_npz(path)
        return _load_folder(path, split, options) if only is None else _load_arrays(only, split, options)
    if path.exists():
        raise ValueError(
            f"{path} is a file of an unknown format; expected an .npz or .npy file, a .parquet table of "
            "configurations, a folder of images or a name"
        )
    if isinstance(name_or_path, Path) or path.suffix or "/" in name_or_path or os.sep in name_or_path:
        raise FileNotFoundError(
            f"no file or folder {path} (looked in {Path.cwd()}); expected an .npz or .npy file, a folder of images, "
            f"or one of {', '.join(names())}"
        )
    return DATASETS.create(name_or_path, split=split, **options)


def _path_of(name_or_path: Any) -> Path:
    """Return the path that is meant. Raise for anything but a text or a path that the system can have."""
    if not isinstance(name_or_path, str | Path) or not str(name_or_path) or "\0" in str(name_or_path):
        raise TypeError(
            f"expected the name of a data set or the path of a file or folder, got {name_or_path!r}; arrays become a "
            "set by farout.ImageSet.from_arrays"
        )
    try:
        path = Path(name_or_path).expanduser()
        path.exists()
    except (OSError, RuntimeError) as error:  # a name that is too long, or a home folder that is not there
        raise FileNotFoundError(f"no file or folder {str(name_or_path)[:200]!r}: {error.args[-1]!s:.80}") from error
    return path


def builders(name_or_path: str) -> Iterator[Callable[..., ImageSet]]:
    """Yield the functions that `load` calls with the options of a set: its builder, or the reader of tables."""
    if name_or_path in DATASETS:
        yield DATASETS[name_or_path]
    elif Path(name_or_path).suffix == ".parquet":
        yield drawn.load_table


def _load_arrays(path: Path, split: str, options: dict[str, Any]) -> ImageSet:
    if options:
        raise TypeError(f"{path}: an {path.suffix} file takes no options, got {', '.join(options)}")
    images = read_npz(path, split) if path.suffix == ".npz" else read_npy(path)
    severity = images.attributes.get("severity")
    if severity is None or not split.isdecimal():
        return images
    selected = np.flatnonzero(severity == int(split))
    if not len(selected):
        raise unknown(f"severity of {path}:", split, map(str, np.unique(severity)))
    return images.subset(selected)


def _load_table(path: Path, options: dict[str, Any]) -> ImageSet:
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


def _load_folder(path: Path, split: str, options: dict[str, Any]) -> ImageSet:
    for key in options:
        if key not in _FOLDER_OPTIONS:
            raise unknown("option for a folder:", key, _FOLDER_OPTIONS)
    return FolderSet(_split_folder(path, split), **{"name": path.resolve().name, **options})


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
