"""Image sets that cells make: all of them but the pixels is known before the cell has run."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from farout.core import ImageSet


class NotComputed(RuntimeError):
    """Pixels were asked for that a cell of the run is yet to compute."""


class PendingSet(ImageSet):
    """Image set of a cell that is yet to run: size, shape, labels and fingerprint follow from what it is made of.

    base: the set whose images are changed one by one, if any; every image keeps its index.
    """

    def __init__(self, name: str, fingerprint: str, total: int, shape: tuple[int, int, int], base: ImageSet | None):
        self.name, self.shape = name, shape
        self._print, self._total, self._base = fingerprint, total, base
        self.labels: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return self._total

    @property
    def index(self) -> NDArray[np.int64]:
        return super().index if self._base is None else self._base.index

    def batch(self, indices: ArrayLike) -> Tensor:
        raise NotComputed(f"{self.name}: these images are there only once the run has made them; use open(store)")

    def _fingerprint(self) -> str:
        return self._print
