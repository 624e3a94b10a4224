"""Sampling: images of a trained module, from latents with seeds of their own, padded and cropped."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor, nn

from farout import rng
from farout.checks import check_count
from farout.component import Component
from farout.core import NotFitted
from farout.tensors import CHUNK


@dataclass(kw_only=True, eq=False)
class Sampler(Component, ABC):
    """Square images of a module that works at the next power of two, in [−1, 1]."""

    side: int
    """Side of the images in pixels."""
    channels: int = 3
    """Channels of the images, 1 or 3."""
    module: nn.Module | None = field(default=None, init=False, repr=False)
    """Trained module that generates; None before `fit` or `load`."""
    dim = 0
    """Number of coordinates of a latent; 0 if it has none."""
    classes = 0
    """Number of classes that images are generated for; 0 if it is not conditional."""
    translates: ClassVar[bool] = False
    """True if it changes images instead of generating new ones."""
    sampling: ClassVar[tuple[str, ...]] = ()
    """Names of parameters that change samples and not the training: the same weights serve all their values."""

    def latents(self, count: int, generator: torch.Generator) -> Tensor:
        """Return random latents [count, dim]."""
        return torch.randn(count, self.dim, generator=generator)

    def labels(self, n: int, seed: int = 0) -> Tensor | None:
        """Return the classes for which `sample(n, seed)` generates, [n]; None if it is not conditional."""
        if not self.classes:
            return None
        draws = [self._draw(number, seed, "labels") for number in range(-(-n // CHUNK))]
        drawn = [torch.randint(self.classes, (CHUNK,), generator=one) for one in draws]
        return torch.cat([torch.empty(0, dtype=torch.long), *drawn])[:n]

    @torch.no_grad()
    def sample(self, n: int, seed: int = 0, labels: ArrayLike | None = None) -> Tensor:
        """Return new images, float32 [n, C, H, W] in [0, 1].

        Image i depends on the seed and on i, not on n: images are generated in chunks of 64, each with its own seed.
        labels: class of every image, for a conditional model; by default random, see `labels`.
        """
        if not self.dim:
            raise NotImplementedError(f"{self.name} cannot sample images; use translate(images, seed)")
        check_count("n, the number of images,", n, 0)
        wanted = self.labels(n, seed) if labels is None else self._check_labels(labels, n)
        images = torch.empty(n, self.channels, self.side, self.side)
        for number in range(-(-n // CHUNK)):
            part = slice(number * CHUNK, min(n, (number + 1) * CHUNK))
            z = self.latents(CHUNK, self._draw(number, seed, "latents"))
            given = None if wanted is None else F.pad(wanted[part], (0, CHUNK - (part.stop - part.start)))
            images[part] = self.generate(z, given)[: part.stop - part.start].cpu()
        return images

    def _draw(self, number: int, seed: int, what: str) -> torch.Generator:
        return rng.generator(seed, "generator", what, number)

    def _check_labels(self, labels: ArrayLike, n: int) -> Tensor:
        wanted = torch.as_tensor(labels).long()
        if not self.classes:
            raise ValueError(f"{self.name} is not conditional and takes no labels")
        if wanted.shape != (n,) or (n and not 0 <= wanted.min() <= wanted.max() < self.classes):
            raise ValueError(f"expected {n} labels from 0 to {self.classes - 1}, got {labels!r}")
        return wanted

    def decode(self, z: Tensor, labels: Tensor | None = None) -> Tensor:
        """Return the images of latents [B, dim], float32 [B, C, H, W] in [0, 1], on the latents' device."""
        if not self.dim:
            raise NotImplementedError(f"{self.name} has no latent that can be searched")
        if z.ndim != 2 or z.shape[1] != self.dim:
            raise ValueError(f"expected latents [B, {self.dim}], got shape {list(z.shape)}")
        parts = z.split(CHUNK)
        classes = [None] * len(parts) if labels is None else labels.split(CHUNK)
        return torch.cat([self.generate(*part) for part in zip(parts, classes, strict=True)]).to(z.device)

    def translate(self, images: Tensor, seed: int = 0, indices: Iterable[int] | None = None) -> Tensor:
        """Return changed images of the same shape.

        An image is changed according to the seed and its index, 0 to B − 1 by default, not to its batch.
        """
        raise NotImplementedError(f"{self.name} cannot translate images; use sample(n, seed)")

    def generate(self, z: Tensor, labels: Tensor | None = None) -> Tensor:
        """Return the images of one batch of latents, on the module's device; `labels` only if it is conditional."""
        module, device = self.fitted.eval(), self.device
        output = module(z.to(device)) if labels is None else module(z.to(device), labels.to(device))
        return self.pixels(output).clamp(0, 1)

    # Padding: modules work at the next power of two, in [−1, 1]

    @property
    def module_side(self) -> int:
        """Side of the module's images: the next power of two."""
        return 1 << (self.side - 1).bit_length()

    def inputs(self, images: Tensor) -> Tensor:
        """Return images in [0, 1] as inputs of modules: in [−1, 1], padded with black to the module's side."""
        before = (self.module_side - self.side) // 2
        after = self.module_side - self.side - before
        return F.pad(images, (before, after, before, after)) * 2 - 1 if before or after else images * 2 - 1

    def pixels(self, outputs: Tensor) -> Tensor:
        """Return outputs of the module as images in [0, 1], without the padding."""
        start = (self.module_side - self.side) // 2
        return (outputs[..., start : start + self.side, start : start + self.side].float() + 1) / 2

    @property
    def fitted(self) -> nn.Module:
        """Module that generates; raise if there is none."""
        if self.module is None:
            raise NotFitted(f"{self.name} is not trained: call fit(train) or load(path) first")
        return self.module

    @property
    def device(self) -> torch.device:
        """Device of the module."""
        return next((weight.device for weight in self.fitted.parameters()), torch.device("cpu"))
