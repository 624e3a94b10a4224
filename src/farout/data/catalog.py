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
from farout.data.encoded import EncodedSet
from farout.data.paths import FORMATS, open_path
from farout.data.patterns import is_pattern
from farout.data.procedural import Noise, check_at_least
from farout.registry import Registry


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


def names() -> list[str]:
    """Return the names of all registered sets."""
    return DATASETS.names()


def outlier_splits(name: str) -> list[str]:
    """Return the outlier splits of a named set, hardest first; most sets have none."""
    DATASETS[name]
    return list(_OUTLIER_SPLITS.get(name, []))


def load(name_or_path: str | Path, split: str = "test", *, limit: int | None = None, **options: Any) -> ImageSet:
    """Return a set by name ("cifar10", "shapes", …; see `names`), or from files.

    An .npz file holds `images` and `labels`, or `{split}_images` and `{split}_labels`; an array `severity` gives the
    severity of each image's corruption, and split "3" selects severity 3. An .npy file has labels.npy next to it, if
    there are labels: "set/images.npy" (or its folder, "set"), or the layout of CIFAR-10-C, `load("CIFAR-10-C/fog.npy",
    "3")`. A folder has one sub-folder of images per class, or images only.

    Shards are .tar files in WebDataset's layout (0001.jpg next to 0001.cls or 0001.json) or .parquet files with a
    column of images, as Hugging Face writes them: one file, a folder of them, or a pattern such as
    "photos-{0000..0009}.tar" or "data/train-*.parquet". Folders and shards take the options `side`, `crop`, `channels`
    (see `EncodedSet`) and `name`. Any other .parquet file is a table of configurations, which are rendered (options
    `side`, `font`).

    A folder with sub-folders "train", "val" or "test" is read from the one named `split`, and of shards whose names
    begin with several of these words, those of `split` are; other folders and shards are the same set for every split.
    A folder with a single .npz file and no images is that file.

    `limit` keeps the first images; of a set sorted by class it keeps about the same number of each class.
    """
    if limit is not None:
        check_at_least(limit, 1, "limit")
    images = _open(name_or_path, split, options)
    if limit is not None and limit < len(images):
        images = images.subset(first_indices(images, limit))
    if isinstance(images, EncodedSet):
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
    if path.exists() or is_pattern(str(name_or_path)):
        return open_path(str(name_or_path), split, options)
    if isinstance(name_or_path, Path) or path.suffix or "/" in name_or_path or os.sep in name_or_path:
        raise FileNotFoundError(
            f"no file or folder {path} (looked in {Path.cwd()}); expected {FORMATS}, or one of {', '.join(names())}"
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
