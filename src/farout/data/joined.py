"""Several image sets, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from farout.core import ImageSet
from farout.identity import digest
from farout.tensors import as_indices


class Joined(ImageSet):
    """Images of several sets of one shape, one set after the other, without labels."""

    def __init__(self, parts: Sequence[ImageSet]) -> None:
        shapes = {part.shape for part in parts}
        if len(shapes) != 1:
            raise ValueError(f"expected sets of one shape, got {', '.join(map(str, sorted(shapes))) or 'no set'}")
        self.parts, self.labels = tuple(parts), None
        (self.shape,) = shapes
        self.name = " + ".join(part.name for part in parts)
        self.ends = np.cumsum([len(part) for part in parts])

    def __len__(self) -> int:
        return int(self.ends[-1])

    def batch(self, indices: ArrayLike) -> Tensor:
        wanted = as_indices(indices, len(self))
        images, owners = torch.empty(len(wanted), *self.shape), np.searchsorted(self.ends, wanted, side="right")
        for owner in np.unique(owners):
            mine = np.flatnonzero(owners == owner)
            first = self.ends[owner] - len(self.parts[owner])
            images[torch.from_numpy(mine)] = self.parts[owner].batch(wanted[mine] - first)
        return images

    def _fingerprint(self) -> str:
        return digest(["joined", [part.fingerprint for part in self.parts]])
