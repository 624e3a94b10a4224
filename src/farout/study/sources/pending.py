"""Image sets that cells compute: everything but the pixels is available before the cell has run."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from farout.core import ImageSet


class NotComputed(RuntimeError):
    """Pixels were requested that a cell of the run has not computed yet."""


class PendingSet(ImageSet):
    """Image set of a cell that has not run yet: size, shape, labels and fingerprint follow from its description.

    base: the set whose images the cell changes one by one, if any; every image keeps its index.
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
        raise NotComputed(f"{self.name}: the run has not computed these images yet; use open(store) after it")

    def _fingerprint(self) -> str:
        return self._print
