"""Shifted image sets: a shift is applied to another set's images when a batch is read; nothing is stored."""

from __future__ import annotations

from numpy.typing import ArrayLike
from torch import Tensor

from farout.core import ImageSet, Shift
from farout.data.view import View
from farout.identity import digest
from farout.tensors import as_indices


class Shifted(View):
    """Images of another set under a shift; random parameters depend on the position in that set and the seed."""

    def __init__(self, parent: ImageSet, shift: Shift, seed: int = 0, name: str | None = None) -> None:
        super().__init__(parent, name or f"{parent.name}, {shift.label}")
        self.shift, self.seed = shift, seed

    def batch(self, indices: ArrayLike) -> Tensor:
        order = as_indices(indices, len(self))
        return self.shift(self.parent.batch(order), self.seed, order.tolist())

    def _fingerprint(self) -> str:
        return digest([self.parent.fingerprint, "shifted", 1, self.shift.identity(), self.seed])
