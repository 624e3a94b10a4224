"""Generator contract: a model that is trained on images and generates new ones from latents or from images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Self

from torch import Tensor

from farout.component import Component
from farout.core import ImageSet
from farout.registry import Registry


class Generator(Component, ABC):
    """Generative model of square images; its constructor takes at least `side` and `channels`.

    A model that samples implements `sample`; with `dim` and `decode` its latent can also be searched:
    `farout.variations.Latent(generator=generator.decode, dim=generator.dim)`. A model that changes images implements
    `translate`. Settings should be the fields of a dataclass.
    """

    dim: int = 0
    """Number of coordinates of a latent; 0 if it has none."""

    @abstractmethod
    def fit(self, train: ImageSet, *, val: ImageSet | None = None, seed: int = 0, **settings: Any) -> Self:
        """Train on images; a second fit replaces the first."""

    def sample(self, n: int, seed: int = 0) -> Tensor:
        """Return new images, float32 [n, C, H, W] in [0, 1]; the same seed gives the same images."""
        raise NotImplementedError(f"{self.name} cannot sample images; use translate(images, seed)")

    def decode(self, z: Tensor) -> Tensor:
        """Return the images of latents [B, dim], float32 [B, C, H, W] in [0, 1]."""
        raise NotImplementedError(f"{self.name} has no latent that can be searched")

    def translate(self, images: Tensor, seed: int = 0) -> Tensor:
        """Return changed images of the same shape; the same seed gives the same images."""
        raise NotImplementedError(f"{self.name} cannot translate images; use sample(n, seed)")

    @abstractmethod
    def save(self, path: str | Path) -> None:
        """Write the weights as safetensors."""

    @abstractmethod
    def load(self, path: str | Path) -> Self:
        """Read weights that `save` wrote."""


GENERATORS: Registry[Generator] = Registry("generator", Generator)
