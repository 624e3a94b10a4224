"""Shifted and outlier test sets of ImageNet, read from the user's own copies.

A copy lies in the cache folder under the set's name (imagenet_a, …), or where the option `root` says. It has one folder
per class, and only the split "test". `side` and `crop` are those of `farout.data.file_sets`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from farout.core import ImageSet
from farout.data.cache import cache_folder
from farout.data.class_names import class_indices, read_class_names
from farout.data.file_sets import imagenet
from farout.data.folder import FileSet, FolderSet
from farout.registry import unknown

CLASSES = 1000
"""Classes of ImageNet-1k."""
_NATURAL = "https://github.com/hendrycks/natural-adv-examples"
SOURCES = {
    "imagenet_a": _NATURAL,
    "imagenet_c": "https://github.com/hendrycks/robustness",
    "imagenet_o": _NATURAL,
    "imagenet_r": "https://github.com/hendrycks/imagenet-r",
    "imagenet_sketch": "https://github.com/HaohanWang/ImageNet-Sketch",
    "imagenet_v2": "https://github.com/modestyachts/ImageNetV2",
}
"""Addresses that say where each set is downloaded."""


def imagenet_a(
    split: str = "test", *, root: str | Path | None = None, side: int | None = 224, crop: int | None = None
) -> ImageSet:
    """ImageNet-A (Hendrycks et al. 2021): 7,500 photographs of 200 classes that a ResNet-50 misclassifies."""
    return _folder("imagenet_a", split, root, side, crop)


def imagenet_o(
    split: str = "test", *, root: str | Path | None = None, side: int | None = 224, crop: int | None = None
) -> ImageSet:
    """ImageNet-O (Hendrycks et al. 2021): 2,000 outliers, photographs of classes that ImageNet-1k does not have.

    Its folders, and so its labels, are the 200 classes of ImageNet that a ResNet-50 takes them for.
    """
    return _folder("imagenet_o", split, root, side, crop)


def imagenet_r(
    split: str = "test", *, root: str | Path | None = None, side: int | None = 224, crop: int | None = None
) -> ImageSet:
    """ImageNet-R (Hendrycks et al. 2020): 30,000 renditions (art, toys, sketches, …) of 200 classes of ImageNet."""
    return _folder("imagenet_r", split, root, side, crop)


def imagenet_sketch(
    split: str = "test", *, root: str | Path | None = None, side: int | None = 224, crop: int | None = None
) -> ImageSet:
    """ImageNet-Sketch (Wang et al. 2019): drawings of the 1,000 classes of ImageNet, about 50 of each."""
    return _folder("imagenet_sketch", split, root, side, crop)


def imagenet_v2(
    split: str = "test", *, root: str | Path | None = None, side: int | None = 224, crop: int | None = None
) -> ImageSet:
    """ImageNet-V2 (Recht et al. 2019), one of its three test sets: 10,000 new photographs of the 1,000 classes.

    Its folders are the numbers of the classes, 0 to 999, in the order of ImageNet's synsets; they are read as numbers.
    """
    images = _folder("imagenet_v2", split, root, side, crop)
    if not all(name.isdecimal() and int(name) < CLASSES for name in images.classes):
        raise ValueError(
            f"imagenet_v2: {images.root} has folders such as {images.classes[0]!r}, expected numbers from 0 to 999"
        )
    numbers = np.array([int(name) for name in images.classes])
    assert images.labels is not None
    order = np.argsort(numbers[images.labels], kind="stable")
    return _relabeled(images, order, numbers[images.labels][order], tuple(map(str, range(CLASSES))))


def imagenet_c(
    split: str = "test",
    *,
    root: str | Path | None = None,
    corruption: str | None = None,
    severity: int = 5,
    side: int | None = 224,
    crop: int | None = None,
) -> ImageSet:
    """ImageNet-C (Hendrycks and Dietterich 2019): the 50,000 validation images with one corruption at one severity.

    corruption, severity: a folder of `root`, such as "fog", and one of its folders, 1 to 5.
    """
    place = _place("imagenet_c", split, root)
    known = [name for name in sorted(entry.name for entry in place.iterdir()) if (place / name / "5").is_dir()]
    if corruption not in known:
        raise unknown(f"corruption= of imagenet_c in {place}:", corruption, known)
    if severity not in range(1, 6):
        raise ValueError(f"imagenet_c: severity must be from 1 to 5, got {severity!r}")
    return FolderSet(
        place / corruption / str(severity), side=side, crop=crop, name=f"imagenet_c/{corruption}/{severity}"
    )


def imagenet_200(
    split: str = "test",
    *,
    root: str | Path | None = None,
    classes_of: str | Path | None = None,
    side: int | None = 224,
    crop: int | None = None,
) -> ImageSet:
    """Images of ImageNet-1k of 200 classes: inliers to compare with ImageNet-R, -A or -O. Splits as `imagenet`.

    root: as `imagenet`. classes_of: a folder with one sub-folder per synset, such as the copy of ImageNet-R, -A or -O,
    or a text file with one synset per line; by default ImageNet-R in the cache folder, whose 200 classes the name
    stands for in OpenOOD. Labels count these classes, sorted by synset as in the folders of those sets.
    """
    images = imagenet(split, root=root, side=side, crop=crop)
    assert isinstance(images, FileSet)
    assert images.labels is not None
    source = Path(cache_folder() / "imagenet_r" if classes_of is None else classes_of)
    if not source.exists():
        raise FileNotFoundError(
            f"imagenet_200: no folder {source}. Give classes_of=, a copy of ImageNet-R, -A or -O, or a text file with "
            "one synset per line"
        )
    wanted = tuple(sorted(read_class_names(source)))
    kept = class_indices(images.classes, wanted, f"imagenet's folders in {root}")
    labels = np.full(len(images.classes), -1)
    labels[list(kept)] = np.arange(len(kept))
    selected = np.flatnonzero(labels[images.labels] >= 0)
    return _relabeled(images, selected, labels[images.labels[selected]], wanted, "imagenet_200")


def _place(name: str, split: str, root: str | Path | None) -> Path:
    """Return the folder of a set. Raise with its source if there is none."""
    if split != "test":
        raise unknown(f"split of {name!r}:", split, ["test"])
    place = cache_folder() / name if root is None else Path(root)
    if not place.is_dir():
        raise FileNotFoundError(
            f"{name}: no folder {place}. Download the set as {SOURCES[name]} says, unpack it, and put the folder that "
            f"holds one folder per {'corruption' if name == 'imagenet_c' else 'class'} there, or name it by root= (in "
            "a study options: {root: …})"
        )
    return place


def _folder(name: str, split: str, root: str | Path | None, side: int | None, crop: int | None) -> FolderSet:
    images = FolderSet(_place(name, split, root), side=side, crop=crop, name=name)
    if images.labels is None:
        raise ValueError(f"{name}: {images.root} holds images; expected one folder per class")
    return images


def _relabeled(
    images: FileSet, selected: np.ndarray, labels: np.ndarray, classes: tuple[str, ...], name: str | None = None
) -> FileSet:
    """Return a subset of the images with other labels and classes."""
    part = images.subset(selected, name)
    part.labels, part.classes = labels.astype(np.int64), classes
    return part
