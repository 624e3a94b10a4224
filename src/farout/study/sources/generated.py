"""Generated image sets as sources, to be scored, subset, shifted or learned from as any other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from farout.core import ImageSet
from farout.data.arrays import as_floats
from farout.identity import digest
from farout.study.cells.cell import Cell
from farout.study.cells.generate import IMAGES, GenerateCell
from farout.study.sources.images import ImageSource
from farout.study.sources.pending import PendingSet
from farout.study.store import Store
from farout.tensors import as_indices


@dataclass(frozen=True)
class GeneratedImages(ImageSource):
    """Images that a cell generates."""

    cell: GenerateCell

    @property
    def portable(self) -> bool:  # type: ignore[override]
        return self.cell.portable

    @property
    def requires(self) -> tuple[Cell, ...]:
        return (*(self.cell.base.requires if self.cell.base else ()), self.cell)

    def preview(self) -> ImageSet:
        return GeneratedSet(self.cell, self.cell.base.preview() if self.cell.base else None)

    def _open(self, store: Store) -> ImageSet:
        images = GeneratedSet(self.cell, self.cell.base.open(store) if self.cell.base else None)
        images.read(store)
        return images


class GeneratedSet(PendingSet):
    """Generated images, read from the store on demand; translated ones keep the labels of their originals."""

    def __init__(self, cell: GenerateCell, base: ImageSet | None) -> None:
        self.cell = cell
        super().__init__(cell.label, digest(["generated", cell.id]), cell.total, cell.shape, base)
        if base is not None:
            self.labels, self.classes, self.attributes = base.labels, base.classes, base.attributes
        self._images: NDArray[np.uint8] | None = None

    def read(self, store: Store) -> None:
        """Open the images in the store, and read their attributes."""
        known = {name: store.column(self.cell.id, name) for name in store.columns(self.cell.id) if name != "index"}
        self.attributes = {**self.attributes, **known}
        self._images = np.load(store.file(self.cell.id, IMAGES), mmap_mode="r").transpose(0, 3, 1, 2)

    def batch(self, indices: ArrayLike) -> Tensor:
        if self._images is None:
            return super().batch(indices)
        return as_floats(self._images[as_indices(indices, len(self))])
