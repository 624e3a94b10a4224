"""A subset of another image set."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from farout.core import ImageSet
from farout.data.lazy import Lazy
from farout.identity import digest, digest_arrays
from farout.tensors import as_indices


class Subset(ImageSet):
    """Some images of another set."""

    def __init__(self, parent: ImageSet, indices: ArrayLike, name: str | None = None) -> None:
        self.parent, self.indices = parent, as_indices(indices, len(parent))
        self.name = name or parent.name
        self.labels = None if parent.labels is None else parent.labels[self.indices]
        self.classes, self.shape = parent.classes, parent.shape
        self.attributes = Lazy(parent.attributes, partial(_select, parent.attributes, self.indices))

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def index(self) -> NDArray[np.int64]:
        return self.parent.index[self.indices]

    def batch(self, indices: ArrayLike) -> Tensor:
        return self.parent.batch(self.indices[as_indices(indices, len(self))])

    def _fingerprint(self) -> str:
        return digest([self.parent.fingerprint, digest_arrays([("indices", self.indices)])])


def _select(attributes: Mapping[str, NDArray[Any]], indices: NDArray[np.int64], name: str) -> NDArray[Any]:
    return attributes[name][indices]
