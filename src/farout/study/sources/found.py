"""Images that a search has found, to be scored by other detectors."""

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
from farout.study.sources.images import About, ImageSource
from farout.study.store import Store
from farout.tensors import places


@dataclass(frozen=True)
class FoundImages(ImageSource):
    """The worst cases of one detector."""

    search: SearchCell
    shape: tuple[int, int, int]

    @cached_property
    def portable(self) -> bool:  # type: ignore[override]
        return self.search.work([self.search]).portable

    @property
    def requires(self) -> tuple[Cell, ...]:
        return (self.search,)

    @cached_property
    def about(self) -> About:
        of = f"{self.search.images.about.name} as found" if self.search.images else "what was found"
        name = (
            f"{of} in {self.search.variation.label} against {self.search.subject.label} by {self.search.search.label}"
        )
        return About(name, digest(["found", self.search.id]), self.search.chains, self.shape, (), False)

    def load(self) -> ImageSet:
        raise RuntimeError("these images are there only once the search has run: use open(store)")

    def open(self, store: Store) -> ImageSet:
        return FoundSet(self, store)


class FoundSet(ImageSet):
    """The latents that a search has kept, decoded when they are asked for."""

    labels = None

    def __init__(self, source: FoundImages, store: Store) -> None:
        self.name, self.shape = source.about.name, source.shape
        self._cell, self._print = source.search, source.about.fingerprint
        self._images = source.search.images.open(store) if source.search.images else None
        self._latents = torch.from_numpy(store.arrays(source.search.id, FOUND)["latents"])

    def __len__(self) -> int:
        return len(self._latents)

    def batch(self, indices: ArrayLike) -> Tensor:
        chosen = places(indices, len(self))
        return self._cell.decode(self._images, chosen, self._latents[torch.from_numpy(chosen)])

    def _fingerprint(self) -> str:
        return self._print
