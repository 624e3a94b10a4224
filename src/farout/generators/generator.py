"""Generator contract: what is trained on images and makes new ones, of a latent or of other images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Self

from torch import Tensor

from farout.component import Component
from farout.core import ImageSet
from farout.registry import Registry


class Generator(Component, ABC):
    """A generative model of square images; it takes at least `side` and `channels`.

    One that draws writes `sample`, and with `dim` and `decode` its latent can be searched:
    `farout.variations.Latent(generator=generator.decode, dim=generator.dim)`. One that changes images writes
    `translate`. Settings are best the fields of a dataclass.
    """

    dim: int = 0
    """Coordinates of a latent; 0 where it has none."""

    @abstractmethod
    def fit(self, train: ImageSet, *, val: ImageSet | None = None, seed: int = 0, **settings: Any) -> Self:
        """Train on images; fitting again forgets the first fit."""

    def sample(self, n: int, seed: int = 0) -> Tensor:
        """Return new images, float32 [n, C, H, W] in [0, 1]; the same for the same seed."""
        raise NotImplementedError(f"{self.name} draws no images from nothing; try translate(images, seed)")

    def decode(self, z: Tensor) -> Tensor:
        """Return the images of latents [B, dim], float32 [B, C, H, W] in [0, 1]."""
        raise NotImplementedError(f"{self.name} has no latent that can be searched")

    def translate(self, images: Tensor, seed: int = 0) -> Tensor:
        """Return changed images of the same shape; the same for the same seed."""
        raise NotImplementedError(f"{self.name} translates no images; try sample(n, seed)")

    @abstractmethod
    def save(self, path: str | Path) -> None:
        """Write the weights as safetensors."""

    @abstractmethod
    def load(self, path: str | Path) -> Self:
        """Read weights that `save` wrote."""


GENERATORS: Registry[Generator] = Registry("generator", Generator)
