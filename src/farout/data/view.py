"""Base of image sets that change every image of another set."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from farout.core import ImageSet


class View(ImageSet):
    """Images of another set, each changed; length, labels, attributes and indices are those of that set."""

    def __init__(self, parent: ImageSet, name: str | None = None, shape: tuple[int, int, int] | None = None) -> None:
        self.parent, self.name, self.shape = parent, name or parent.name, shape or parent.shape
        self.labels, self.classes, self.attributes = parent.labels, parent.classes, parent.attributes

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def index(self) -> NDArray[np.int64]:
        return self.parent.index
