"""The classes of `rood` that are the inliers in turn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from farout.core import ImageSet
from farout.study.sources import OUTLIER

COLUMNS = ("setup", "network", "seed", "detector", "mean", "GS")
"""Of the table that has others called after the classes."""


def one_class_names(whole: ImageSet, test: ImageSet, train: ImageSet) -> dict[int, str]:
    """The classes by label; an error where one has no images to test with, of the `test` ones taken, or to fit on."""
    names = class_names(np.unique(_labels(whole)).tolist(), whole.classes)
    for label, name in names.items():
        if lack := _lacking(test, label):
            raise ValueError(
                f"protocol rood: {lack} of the class {name} among the {len(test):,} test images, and one_class makes "
                "every class the inlier: take more images (images:, limit:, budget:), or leave out one_class"
            )
        if label not in _labels(train):
            raise ValueError(
                f"protocol rood: none of the {len(train):,} training images is of the class {name}, and one_class fits "
                "detectors on every class: take more training images, or leave that class out of the test images"
            )
    return names


def class_names(labels: Sequence[int], classes: Sequence[str]) -> dict[int, str]:
    """What tables call the classes: the name, with the label where the name alone would not do."""
    known = [classes[label] if 0 <= label < len(classes) else "" for label in labels]
    clear = [known.count(name) == 1 and name not in COLUMNS and not name.endswith(("_low", "_high")) for name in known]
    return {
        label: (name if alone else f"{name} ({label})") if name else str(label)
        for label, name, alone in zip(labels, known, clear, strict=True)
    }


def _lacking(test: ImageSet, label: int) -> str:
    """What there is none of; empty where nothing is lacking."""
    mine = _labels(test) == label
    defective = test.attributes.get(OUTLIER)
    if defective is None:
        return "" if mine.any() else "no image"
    return "" if set(defective[mine]) == {0, 1} else "no inlier or no outlier"


def _labels(images: ImageSet) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.empty(0, np.int64) if images.labels is None else images.labels
