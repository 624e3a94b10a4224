"""What an attack promises: it proposes images; whoever calls it clips, rounds and judges them."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor

from farout.attacks.victim import Victim
from farout.component import Component

SMALL = 64
"""The largest side, in pixels, that has the settings of CIFAR; larger ones have those of ImageNet."""


@dataclasses.dataclass(kw_only=True)
class Attack(Component, ABC):
    """Changes images so that a classifier errs, or a detector. Settings are its fields.

    What becomes of an image depends on its own generator and not on the batch it is in.
    """

    against: ClassVar[Literal["classifier", "detector", "both"]] = "classifier"
    """What must err. Against a detector alone images are outliers that it shall take for inliers."""
    level: ClassVar[int] = 1
    """How far up the paper's roadmap: 0 too weak for it, 1 strong attacks on the classifier, 4 adaptive ones."""
    least_classes: ClassVar[int] = 2
    """How many classes the classifier must tell apart."""

    @abstractmethod
    def run(self, victim: Victim, images: Tensor, labels: Tensor, rngs: Sequence[torch.Generator]) -> Tensor:
        """Changed images [B, C, H, W], given the true labels [B] and a generator (on the CPU) for every image."""

    def unsuited(self, shape: tuple[int, int, int], classes: int) -> str | None:
        """Why it cannot change images of this shape (C, H, W) for a network of so many classes; None where it can."""
        if classes >= self.least_classes:
            return None
        return f"{self.label} needs a network with at least {self.least_classes} classes, got one with {classes}"

    def passes(self, classes: int) -> int:
        """How often it sends an image through the network, at most; for the bar."""
        return 1

    @property
    def label(self) -> str:
        """The name in tables, with the settings that are not the default ones."""
        defaults = {f.name: f.default for f in dataclasses.fields(self) if f.init}
        own = [f"{key}={value}" for key, value in self.params.items() if value != defaults[key]]
        return f"{self.name}({', '.join(own)})" if own else self.name


def epsilon_for(images: Tensor, epsilon: float | None) -> float:
    """The bound as given, or the paper's: 8/255 for images as small as CIFAR's, 4/255 for larger ones."""
    return epsilon if epsilon is not None else (8 if max(images.shape[2:]) <= SMALL else 4) / 255
