"""Shifted image sets: a shift is applied to another set's images when a batch is read; nothing is stored."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from farout.core import ImageSet, Shift
from farout.identity import digest
from farout.tensors import as_indices


class Shifted(ImageSet):
    """Images of another set under a shift; the randomness of an image depends on its index in that set and the seed."""

    def __init__(self, parent: ImageSet, shift: Shift, seed: int = 0, name: str | None = None) -> None:
        self.parent, self.shift, self.seed = parent, shift, seed
        self.name = name or f"{parent.name}, {shift.label}"
        self.labels, self.classes, self.shape = parent.labels, parent.classes, parent.shape
        self.attributes = parent.attributes

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def index(self) -> NDArray[np.int64]:
        return self.parent.index

    def batch(self, indices: ArrayLike) -> Tensor:
        order = as_indices(indices, len(self))
        return self.shift(self.parent.batch(order), self.seed, order.tolist())

    def _fingerprint(self) -> str:
        return digest([self.parent.fingerprint, "shifted", 1, self.shift.identity(), self.seed])
