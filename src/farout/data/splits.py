"""Splits of the named sets: the official ones, and a validation split drawn from the training images."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from farout.core import ImageSet
from farout.registry import unknown
from farout.rng import numpy_generator

SPLITS = ("train", "val", "train+val", "test")
"""Splits of every downloaded set."""

_SHARE = 0.1


def official_split(split: str, name: str) -> str:
    """Return the official split that contains `split`, "train" or "test"; raise an error if it is unknown."""
    if split not in SPLITS:
        raise unknown(f"split of {name!r}:", split, SPLITS)
    return "test" if split == "test" else "train"


def select_split(images: ImageSet, split: str, strata: NDArray[np.int64] | None = None) -> ImageSet:
    """Return the subset of an official split that belongs to `split`.

    "val" is a tenth of each class of the official training set (at least one image), drawn with seed 0 and the set's
    name; "train" is the rest, "train+val" all of it. The order is kept. `strata` are used as classes instead of labels.
    """
    if split in ("test", "train+val"):
        return images
    strata = images.labels if strata is None else strata
    held_out = validation_mask(np.zeros(len(images), np.int64) if strata is None else strata, images.name)
    return images.subset(np.flatnonzero(held_out if split == "val" else ~held_out))


def validation_mask(labels: NDArray[np.int64], name: str) -> NDArray[np.bool_]:
    """Return a mask of the images that are held out for validation."""
    rng, selected = numpy_generator(0, "validation split", name), np.zeros(len(labels), bool)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        selected[rng.permutation(members)[: max(1, round(_SHARE * len(members)))]] = True
    return selected
