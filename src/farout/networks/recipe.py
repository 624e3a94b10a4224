"""How a network is trained: the options of `train`, their checks, and the learning rate of every step."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, get_args

from farout.core import ImageSet
from farout.registry import unknown

Schedule = Literal["cosine", "step"]
Augment = Literal["crop_flip", "none"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """The options of `train` that decide the weights."""

    epochs: int
    lr: float
    batch: int
    momentum: float
    weight_decay: float
    schedule: Schedule
    augment: Augment
    seed: int

    def __post_init__(self) -> None:
        if self.schedule not in get_args(Schedule):
            raise unknown("schedule", self.schedule, get_args(Schedule))
        if self.augment not in get_args(Augment):
            raise unknown("augment", self.augment, get_args(Augment))
        if self.epochs < 1 or self.batch < 2:
            raise ValueError(f"expected epochs >= 1 and batch >= 2, got epochs={self.epochs} and batch={self.batch}")
        if not (0 < self.lr < math.inf and 0 <= self.momentum < 1 and 0 <= self.weight_decay < math.inf):
            raise ValueError(
                "expected lr > 0, 0 <= momentum < 1 and weight_decay >= 0, "
                f"got lr={self.lr}, momentum={self.momentum} and weight_decay={self.weight_decay}"
            )

    def steps(self, images: int) -> int:
        """Steps per epoch: near-equal batches of at most `batch`, so that every image is used once."""
        return math.ceil(images / self.batch)

    def lr_at(self, step: int, steps: int) -> float:
        """The learning rate of step 0, 1, … of `steps` over the whole run.

        cosine: Loshchilov & Hutter 2017, eq. 5, down to 0, without restarts. step: He et al. 2016, section 4.2,
        divided by 10 after one half and again after three quarters.
        """
        if self.schedule == "cosine":
            return self.lr / 2 * (1 + math.cos(math.pi * step / steps))
        return self.lr * (0.01 if 4 * step >= 3 * steps else 0.1 if 2 * step >= steps else 1.0)


def check_set(images: ImageSet, classes: int, role: str) -> None:
    """A clear error where a set cannot be trained or validated on."""
    if not len(images):
        raise ValueError(f"the {role} set {images.name!r} is empty; expected at least one image")
    if images.labels is None:
        raise ValueError(f"the {role} set {images.name!r} has no labels; training needs a class index per image")
    low, high = int(images.labels.min()), int(images.labels.max())
    if low < 0 or high >= classes:
        raise ValueError(
            f"the {role} set {images.name!r} has labels from {low} to {high}, the network has {classes} classes "
            f"(0 to {classes - 1}); create it with classes={high + 1} or map the labels"
        )
    if role == "training" and low == high:
        raise ValueError(
            f"all {len(images):,} images of the training set {images.name!r} have the label {low}; a classifier "
            "needs at least two classes"
        )
