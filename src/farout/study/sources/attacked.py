"""Attacked images as a set, to be scored by detectors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from farout.core import ImageSet
from farout.identity import digest
from farout.study.cells.attack import IMAGES, JUDGED, AttackCell
from farout.study.cells.cell import Cell
from farout.study.sources.images import About, ImageSource
from farout.study.store import Store
from farout.tensors import places


@dataclass(frozen=True)
class AttackedImages(ImageSource):
    """The images that an attack has left, with what became of each as attributes."""

    attack: AttackCell
    rounded: bool = False
    """To 8 bits, as a file would hold them."""

    @cached_property
    def portable(self) -> bool:  # type: ignore[override]
        return self.attack.work([self.attack]).portable

    @property
    def requires(self) -> tuple[Cell, ...]:
        return (self.attack,)

    @cached_property
    def about(self) -> About:
        of = self.attack.images.about
        name = f"{of.name} attacked on {self.attack.on} by {self.attack.attack.label}"
        name += " in 8 bits" if self.rounded else ""
        print_ = digest(["attacked", self.attack.id, self.rounded])
        return About(name, print_, of.total, of.shape, of.classes, of.labelled)

    def load(self) -> ImageSet:
        raise RuntimeError("these images are there only once the attack has run: use open(store)")

    def open(self, store: Store) -> ImageSet:
        return AttackedSet(self, store)


class AttackedSet(ImageSet):
    """Attacked images, read from the store when they are asked for."""

    def __init__(self, source: AttackedImages, store: Store) -> None:
        clean, cell = source.attack.images.open(store), source.attack.id
        self.name, self.shape, self._print = source.about.name, source.about.shape, source.about.fingerprint
        self.labels, self.classes = clean.labels, clean.classes
        self.attributes = {name: store.column(cell, name) for name in JUDGED}
        if source.rounded:
            known = self.attributes
            self.attributes = {**known, "success": known["success_8bit"], "before_rounding": known["success"]}
        self._images = np.load(store.file(cell, IMAGES), mmap_mode="r")
        self._rounded = source.rounded

    def __len__(self) -> int:
        return len(self._images)

    def batch(self, indices: ArrayLike) -> Tensor:
        images = torch.from_numpy(self._images[places(indices, len(self))])
        return images.mul(255).round_().div_(255) if self._rounded else images

    def _fingerprint(self) -> str:
        return self._print
