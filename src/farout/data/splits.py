"""The splits of the named sets: the official ones, and a validation split of our own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from farout.core import ImageSet
from farout.registry import unknown
from farout.rng import numpy_generator

SPLITS = ("train", "val", "train+val", "test")
"""What every downloaded set offers."""

_SHARE = 0.1


def official(split: str, name: str) -> str:
    """The official split that `split` is taken from: "train" or "test"; an error for an unknown one."""
    if split not in SPLITS:
        raise unknown(f"split of {name!r}:", split, SPLITS)
    return "test" if split == "test" else "train"


def divide(images: ImageSet, split: str, strata: NDArray[np.int64] | None = None) -> ImageSet:
    """The part of an official split that `split` asks for.

    "val" is a tenth of each class of the official training set (at least one image), drawn with seed 0 and the set's
    name; "train" is the rest, "train+val" all of it. Order is kept. `strata` stand in for the labels as classes.
    """
    if split in ("test", "train+val"):
        return images
    strata = images.labels if strata is None else strata
    held_out = holdout(np.zeros(len(images), np.int64) if strata is None else strata, images.name)
    return images.subset(np.flatnonzero(held_out if split == "val" else ~held_out))


def holdout(labels: NDArray[np.int64], name: str) -> NDArray[np.bool_]:
    """Which images are held out for validation."""
    rng, chosen = numpy_generator(0, "validation split", name), np.zeros(len(labels), bool)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        chosen[rng.permutation(members)[: max(1, round(_SHARE * len(members)))]] = True
    return chosen
