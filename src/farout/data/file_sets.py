"""Named sets of image files: unpacked once into the cache folder (ImageNet: the user's own copy), read file by file.

Every set takes two options. `crop` cuts a square of that many pixels out of the center; `side` then resizes the shorter
side to that many pixels and cuts out the central square. With None the step is left out.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from farout.core import ImageSet
from farout.data.archives import unpack
from farout.data.arrays import OUTLIER
from farout.data.cache import cache_folder
from farout.data.download import announce_files, fetch
from farout.data.folder import FileSet, FolderSet, scan
from farout.data.formats import read_table
from farout.data.splits import official_split, select_split
from farout.registry import unknown

_TEXTURES = ("carpet", "grid", "leather", "tile", "wood")
_OBJECTS = (
    "bottle",
    "cable",
    "capsule",
    "hazelnut",
    "metal_nut",
    "pill",
    "screw",
    "toothbrush",
    "transistor",
    "zipper",
)
CATEGORIES = _TEXTURES + _OBJECTS
"""The categories of MVTec AD."""
_MVTEC = "mvtec/mvtec_anomaly_detection.tar.xz"

_CELEBA = "celeba/img_align_celeba.zip"
_CELEBA_PARTS = {"train": "0", "val": "1", "train+val": "01", "test": "2"}


def celeba(
    split: str = "test", *, attribute: str | None = None, side: int | None = None, crop: int | None = None
) -> ImageSet:
    """CelebA (Liu et al. 2015), aligned and cropped faces of 178 × 218 px: 162,770 + 19,867 + 19,962.

    All splits are the official ones. There are no labels unless `attribute` names one of the 40 attributes ("Smiling",
    …): then label 1 means that the face has it, 0 that it has not. The `evg` paper uses crop=140 and side=32.
    """
    official_split(split, "celeba")
    archive = () if _unpack_folder(_CELEBA).is_dir() else (_CELEBA,)
    announce_files("celeba/list_eval_partition.txt", *(("celeba/list_attr_celeba.txt",) if attribute else ()), *archive)
    partition = read_table(fetch("celeba/list_eval_partition.txt"))
    files = [file for file, part in partition if part in _CELEBA_PARTS[split]]
    labels = None if attribute is None else _read_celeba_labels(attribute, files)
    classes = () if attribute is None else (f"not {attribute}", attribute)
    root = _unpack(_CELEBA) / "img_align_celeba"
    return FileSet(root, files, labels, name="celeba", classes=classes, side=side, crop=crop)


def tiny_imagenet(split: str = "test", *, side: int | None = None, crop: int | None = None) -> ImageSet:
    """Tiny ImageNet: 100,000 + 10,000 color images of 64 px, 200 synsets.

    "test" is the official validation set, since the official test set has no labels; "train" (90,000), "val" (10,000)
    and "train+val" are parts of the official training set, see `farout.data.splits.select_split`.
    """
    official_split(split, "tiny_imagenet")
    root = _unpack("tiny_imagenet/tiny-imagenet-200.zip") / "tiny-imagenet-200"
    if split != "test":
        return select_split(FolderSet(root / "train", side=side, crop=crop, name="tiny_imagenet"), split)
    rows = read_table(root / "val" / "val_annotations.txt")
    synsets = tuple(sorted({row[1] for row in rows}))
    labels = [synsets.index(row[1]) for row in rows]
    files = [row[0] for row in rows]
    return FileSet(root / "val" / "images", files, labels, name="tiny_imagenet", classes=synsets, side=side, crop=crop)


def imagenet(
    split: str = "test", *, root: str | Path | None = None, side: int | None = 224, crop: int | None = None
) -> ImageSet:
    """ImageNet-1k (Russakovsky et al. 2015), read from the user's own copy.

    `root` holds the folders "train" and "val", each with one folder per synset.

    "test" is the official validation set (50,000), since the official test set has no labels; "train", "val" and
    "train+val" are parts of the official training set, see `farout.data.splits.select_split`.
    """
    part = "val" if official_split(split, "imagenet") == "test" else "train"
    if root is None or not (Path(root) / part).is_dir():
        got = "no root" if root is None else f"{root}, which has no folder {part!r}"
        raise FileNotFoundError(
            f"imagenet: expected root=, a folder with 'train' and 'val' that hold one folder per synset; got {got}. "
            "ImageNet may not be passed on: register at https://image-net.org/download, fetch the ILSVRC2012 training "
            "and validation images, and sort both into synset folders"
        )
    images = FolderSet(Path(root) / part, side=side, crop=crop, name="imagenet")
    if images.labels is None:
        raise ValueError(f"imagenet: {images.root} holds images; expected one folder per synset (n01440764, …)")
    return select_split(images, split)


def mvtec(
    split: str = "test", *, category: str | None = None, side: int | None = None, crop: int | None = None
) -> ImageSet:
    """MVTec AD (Bergmann et al. 2019), one category or all of them.

    "test" is the official test set; the official training set has good images only, and "train", "val" and
    "train+val" are parts of it, see `farout.data.splits.select_split`. With one `category`, labels are 0 (good) and 1
    (defect), and good images come first. With all categories, `side` or `crop` is required, labels are the categories,
    and the attribute "outlier" is 1 for defective images.
    """
    part = official_split(split, "mvtec")
    if category is None:
        return _load_categories(split, part, side, crop)
    if category not in CATEGORIES:
        raise unknown("category= of mvtec:", category, CATEGORIES)
    root = _unpack(_MVTEC) / category / part
    files, defect = _scan_category(root)
    name = f"mvtec/{category}"
    return select_split(
        FileSet(root, files, defect, name=name, classes=("good", "defect"), side=side, crop=crop), split
    )


def _scan_category(root: Path) -> tuple[list[str], NDArray[np.int64]]:
    """Return the files of one category, good ones first, and their labels (1: defective)."""
    files, labels, kinds = scan(root)
    defect = np.array([kinds[label] != "good" for label in (() if labels is None else labels)], np.int64)
    order = np.argsort(defect, kind="stable")
    return [files[place] for place in order], defect[order]


def _load_categories(split: str, part: str, side: int | None, crop: int | None) -> ImageSet:
    """Return one set of all categories."""
    if side is None and crop is None:
        raise ValueError(
            "mvtec: the categories' images differ in size: give side= (in a study options: {side: 224}), or one "
            f"category= ({', '.join(CATEGORIES)})"
        )
    root, files, labels, defects = _unpack(_MVTEC), list[str](), list[int](), list[int]()
    for label, category in enumerate(CATEGORIES):
        found, defect = _scan_category(root / category / part)
        files += [f"{category}/{part}/{file}" for file in found]
        labels += [label] * len(found)
        defects += defect.tolist()
    known = {OUTLIER: np.array(defects, np.int64)}
    every = FileSet(root, files, labels, name="mvtec", classes=CATEGORIES, side=side, crop=crop, attributes=known)
    return select_split(every, split)


def _unpack(key: str) -> Path:
    """Return the folder of an unpacked archive of `SOURCES`; download and unpack it if the folder is missing."""
    folder = _unpack_folder(key)
    return folder if folder.is_dir() else unpack(fetch(key), folder)


def _unpack_folder(key: str) -> Path:
    return cache_folder() / key.split("/")[0] / "unpacked"


def _read_celeba_labels(attribute: str, files: list[str]) -> list[int]:
    path = fetch("celeba/list_attr_celeba.txt")
    names = read_table(path, header=1)[0]
    if attribute not in names:
        raise unknown("attribute= of celeba:", attribute, names)
    column = names.index(attribute) + 1
    value = {row[0]: int(row[column] == "1") for row in read_table(path, header=2)}
    return [value[file] for file in files]
