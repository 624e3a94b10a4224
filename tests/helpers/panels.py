"""A small network that counts what it sees, images that tell themselves apart, and simple detectors."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from farout import Activations, ImageSet, Network, Panel, PostHoc, detectors
from farout.core import Split
from farout.detectors import KNN


def _named() -> list[PostHoc]:
    """The detectors by name with their defaults, knn with a k that few images allow."""
    made = [KNN(k=5) if name == "knn" else detectors.create(name) for name in detectors.names_of(PostHoc)]
    return [detector for detector in made if isinstance(detector, PostHoc)]


ALL = [detector for detector in _named() if not detector.perturbs]
"""All that read the images as they are."""
PERTURBING = [detector for detector in _named() if detector.perturbs]


class Counting(nn.Module):
    """A small classifier that remembers the first pixel of every image it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[float] = Counter()
        self.features = nn.Sequential(nn.Conv2d(3, 6, 3, 2), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(2))
        self.head = nn.Linear(24, 4)

    def forward(self, images: Tensor) -> Tensor:
        self.seen.update(images[:, 0, 0, 0].tolist())
        logits: Tensor = self.head(self.features(images).flatten(1))
        return logits


def network(seed: int = 0, **options: Any) -> Network:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = Counting()
    wrapped = Network(module, **{"mean": 0.0, "std": 1.0} | options)
    module.seen.clear()
    return wrapped


def pixels(total: int, seed: int) -> Tensor:
    """Images whose first pixel tells them apart."""
    images = torch.rand(total, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
    images[:, 0, 0, 0] = (seed * 1000 + torch.arange(total)) / 1e5
    return images


def images(total: int, seed: int, name: str = "set") -> ImageSet:
    return ImageSet.from_arrays(pixels(total, seed), np.arange(total) % 4, name=name)


def fitted(members: Any = ALL, **options: Any) -> Panel:
    """A panel of copies of these, fitted."""
    return Panel(network(**options), copy.deepcopy(members)).fit(images(130, 1), images(70, 2))


@dataclass(kw_only=True)
class Answering(PostHoc):
    """Answers what it was told to, whatever it is asked."""

    name: ClassVar[str] = "answering"
    answer: Callable[[int], Any]

    def score(self, activations: Activations) -> Tensor:
        value: Tensor = self.answer(len(activations))
        return value


@dataclass(kw_only=True)
class OnVal(PostHoc):
    """Distance of the largest logit from its mean on the validation split."""

    name: ClassVar[str] = "on_val"
    fits_on: ClassVar[Split | None] = "val"

    def fit(self, activations: Activations, labels: Tensor | None) -> OnVal:
        self.state = {"mean": activations.logits.amax(1).double().mean()}
        return self

    def score(self, activations: Activations) -> Tensor:
        return (activations.logits.amax(1).double() - self.fitted("mean")).abs()
