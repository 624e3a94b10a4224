"""Worst cases of a search as an image set, to be scored by other detectors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from farout.core import ImageSet
from farout.identity import digest
from farout.study.cells.cell import Cell
from farout.study.cells.search import FOUND, SearchCell
from farout.study.sources.images import ImageSource
from farout.study.sources.pending import PendingSet
from farout.study.store import Store
from farout.tensors import as_indices


@dataclass(frozen=True)
class FoundImages(ImageSource):
    """Worst cases that a search cell has found against one detector."""

    search: SearchCell
    shape: tuple[int, int, int]

    @cached_property
    def portable(self) -> bool:  # type: ignore[override]
        return self.search.work([self.search]).portable

    @property
    def requires(self) -> tuple[Cell, ...]:
        return (*(self.search.images.requires if self.search.images else ()), self.search)

    def preview(self) -> ImageSet:
        return FoundSet(self, self.search.images.preview() if self.search.images else None)

    def _open(self, store: Store) -> ImageSet:
        images = FoundSet(self, self.search.images.open(store) if self.search.images else None)
        images.read(store)
        return images


class FoundSet(PendingSet):
    """Images decoded on demand from the stored latents of a search; they have no labels."""

    def __init__(self, source: FoundImages, bases: ImageSet | None) -> None:
        self.search = search = source.search
        of = "worst cases" if bases is None else f"worst cases of {bases.name}"
        name = f"{of} in {search.variation.label} against {search.subject.label} by {search.search.label}"
        super().__init__(name, digest(["found", search.id]), search.chains, source.shape, bases)
        self._latents: Tensor | None = None

    def read(self, store: Store) -> None:
        """Read the latents from the store, and open the variation that decodes them."""
        self._varied = self.search.open_variation(store)
        self._latents = torch.from_numpy(store.arrays(self.search.id, FOUND)["latents"])

    def batch(self, indices: ArrayLike) -> Tensor:
        if self._latents is None:
            return super().batch(indices)
        selected = as_indices(indices, len(self))
        return self._varied.decode(self._base, selected, self._latents[torch.from_numpy(selected)])
