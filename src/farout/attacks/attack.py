"""Attack interface: an attack proposes images; the caller clips, rounds and judges them."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor

from farout.attacks.target import Target
from farout.component import Component

SMALL = 64
"""Largest image side, in pixels, that uses CIFAR's settings; larger images use ImageNet's."""


@dataclasses.dataclass(kw_only=True)
class Attack(Component, ABC):
    """Evasion attack: perturbs images so that a classifier or a detector errs. Its settings are its fields.

    The result for an image depends on its own random generator and not on the rest of the batch.
    """

    against: ClassVar[Literal["classifier", "detector", "both"]] = "classifier"
    """Target of the attack. For a detector alone, the images are outliers that are to be scored as inliers."""
    level: ClassVar[int] = 1
    """Level in the paper's roadmap: 0 too weak for it, 1 strong attacks on the classifier, 4 adaptive ones."""
    least_classes: ClassVar[int] = 2
    """Smallest number of classes of the classifier."""

    @abstractmethod
    def run(self, target: Target, images: Tensor, labels: Tensor, rngs: Sequence[torch.Generator]) -> Tensor:
        """Return perturbed images [B, C, H, W] for true labels [B] and one CPU random generator per image."""

    def unsuited(self, shape: tuple[int, int, int], classes: int) -> str | None:
        """Return why images (C, H, W) or a network of so many classes cannot be attacked; None if they can."""
        if classes >= self.least_classes:
            return None
        return f"{self.label} needs a network with at least {self.least_classes} classes, got one with {classes}"

    def passes(self, classes: int) -> int:
        """Return the largest number of forward passes per image, for the progress bar."""
        return 1

    @property
    def label(self) -> str:
        """The name in tables, with the settings that are not the default ones."""
        defaults = {f.name: f.default for f in dataclasses.fields(self) if f.init}
        own = [f"{key}={value}" for key, value in self.params.items() if value != defaults[key]]
        return f"{self.name}({', '.join(own)})" if own else self.name


def epsilon_for(images: Tensor, epsilon: float | None) -> float:
    """Return the bound: `epsilon`, or if None the paper's: 8/255 for images of CIFAR's size, 4/255 for larger ones."""
    return epsilon if epsilon is not None else (8 if max(images.shape[2:]) <= SMALL else 4) / 255
