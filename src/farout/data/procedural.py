"""Image sets rendered from a seed: no download, the same on every machine, every image independent of the others."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from farout.core import ImageSet
from farout.data.arrays import as_floats
from farout.identity import Json, digest
from farout.registry import unknown
from farout.rng import numpy_generator
from farout.tensors import as_indices, chunks

Pixels = NDArray[np.uint8]


class Generated(ImageSet):
    """Image set that is rendered on first use and then held in memory as 8-bit values.

    Subclasses set the attributes of `ImageSet` and `total`, and implement `draw` and `identity`.
    """

    total: int

    @abstractmethod
    def draw(self, indices: NDArray[np.int64]) -> Pixels:
        """Render the images at these indices, uint8 [B, C, H, W]; an image depends on its own index only."""

    @abstractmethod
    def identity(self) -> Json:
        """Return everything that determines the images: a version bumped by hand, and all options."""

    def __len__(self) -> int:
        return self.total

    def batch(self, indices: ArrayLike) -> Tensor:
        return as_floats(self._pixels[as_indices(indices, len(self))])

    @cached_property
    def _pixels(self) -> Pixels:
        pixels = np.empty((self.total, *self.shape), np.uint8)
        for part in chunks(self.total, 256):
            pixels[part] = self.draw(np.arange(part.start, part.stop))
        return pixels

    def _fingerprint(self) -> str:
        return digest(self.identity())


class Noise(Generated):
    """Uniform noise: every value of every pixel is drawn independently from 0..255. No labels."""

    version = 1

    def __init__(self, split: str = "test", *, side: int = 32, channels: int = 3, n: int = 1000) -> None:
        if split != "test":
            raise unknown("split of 'noise':", split, ["test"])
        if channels not in (1, 3):
            raise ValueError(f"noise: channels must be 1 or 3, got {channels}")
        self.name, self.labels = "noise", None
        self.shape = (channels, check_at_least(side, 1, "noise: side"), side)
        self.total = check_at_least(n, 1, "noise: n")

    def draw(self, indices: NDArray[np.int64]) -> Pixels:
        rngs = (numpy_generator(0, "noise", int(index)) for index in indices)
        return np.stack([rng.integers(0, 256, self.shape, np.uint8) for rng in rngs])

    def identity(self) -> Json:
        return {"name": self.name, "version": self.version, "shape": list(self.shape), "n": self.total}


def check_at_least(value: int, least: int, what: str) -> int:
    """Return `value`; raise an error unless it is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{what} must be an integer of at least {least}, got {value!r}")
    return int(value)
