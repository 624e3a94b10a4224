"""Attacked images as a set, to be scored by detectors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from farout.core import ImageSet
from farout.identity import digest
from farout.study.cells.attack import IMAGES, JUDGED, AttackCell
from farout.study.cells.cell import Cell
from farout.study.sources.images import ImageSource
from farout.study.sources.pending import PendingSet
from farout.study.store import Store
from farout.tensors import as_indices


@dataclass(frozen=True)
class AttackedImages(ImageSource):
    """Images of an attack cell, with its judgments as attributes."""

    attack: AttackCell
    rounded: bool = False
    """True to round the images to 8 bits, as a file would hold them."""

    @cached_property
    def portable(self) -> bool:  # type: ignore[override]
        return self.attack.work([self.attack]).portable

    @property
    def requires(self) -> tuple[Cell, ...]:
        return (*self.attack.images.requires, self.attack)

    def preview(self) -> ImageSet:
        return AttackedSet(self, self.attack.images.preview())

    def _open(self, store: Store) -> ImageSet:
        images = AttackedSet(self, self.attack.images.open(store))
        images.read(store)
        return images


class AttackedSet(PendingSet):
    """Attacked images, read from the store on demand; each keeps the label of its clean image."""

    def __init__(self, source: AttackedImages, clean: ImageSet) -> None:
        self.attack, self._rounded = source.attack, source.rounded
        name = f"{clean.name} attacked on {self.attack.on} by {self.attack.attack.label}"
        name += " in 8 bits" if self._rounded else ""
        fingerprint = digest(["attacked", self.attack.id, self._rounded])
        super().__init__(name, fingerprint, len(clean), clean.shape, clean)
        self.labels, self.classes = clean.labels, clean.classes
        self.attributes = {name: values for name, values in clean.attributes.items() if name not in JUDGED}
        self._images: NDArray[np.float32] | None = None

    def read(self, store: Store) -> None:
        """Open the images in the store, and read the judgments as attributes."""
        judged = {name: store.column(self.attack.id, name) for name in JUDGED}
        if self._rounded:
            judged = {**judged, "success": judged["success_8bit"], "before_rounding": judged["success"]}
        self.attributes = {**self.attributes, **judged}
        self._images = np.load(store.file(self.attack.id, IMAGES), mmap_mode="r")

    def batch(self, indices: ArrayLike) -> Tensor:
        if self._images is None:
            return super().batch(indices)
        images = torch.from_numpy(self._images[as_indices(indices, len(self))])
        return images.mul(255).round_().div_(255) if self._rounded else images
