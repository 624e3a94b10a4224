"""`latent`: images that a generator makes of its latent."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farout.tensors import as_images
from farout.variations.bounds import check_latents
from farout.variations.catalog import VARIATIONS
from farout.variations.variation import Variation


@VARIATIONS.register("latent")
@dataclasses.dataclass(kw_only=True)
class Latent(Variation):
    """The latent of a generator, on the unit sphere: the StyleGAN2 of "Evaluation via Generation" (appendix D.2).

    It varies no base: a search gets the number of chains instead. A module makes images in evaluation mode, whatever
    mode it is in.
    """

    name = "latent"
    domain = "sphere"
    conditional = False
    generator: Callable[[Tensor], Tensor]
    """A module, or a function, from latents [B, dim] to images [B, C, H, W] in [0, 1]."""
    dim: int = 64
    """Coordinates of a latent."""

    def __post_init__(self) -> None:
        if not callable(self.generator) or isinstance(self.generator, type):
            raise TypeError(
                f"generator must be a module or a function from latents [B, dim] to images, got {self.generator!r}"
            )
        if isinstance(self.dim, bool) or not isinstance(self.dim, int) or self.dim < 2:
            raise ValueError(f"dim must be a whole number of at least 2, got {self.dim!r}")

    def suited(self, shape: tuple[int, ...]) -> Self:
        with torch.no_grad():
            made = tuple(self.decode(F.normalize(torch.ones(1, self.dim)), None).shape[1:])
        if made != tuple(shape):
            raise ValueError(f"the generator makes images of shape {made}, expected {tuple(shape)}")
        return self

    def decode(self, z: Tensor, base: None = None) -> Tensor:
        """The images that the generator makes of latents [B, dim], on the device of these."""
        check_latents(z, len(z), self.dim)
        with _evaluating(_module(self.generator)) as device:
            images = self.generator(z.to(device))
        try:
            images = as_images(images, z.device)
        except (TypeError, ValueError) as error:
            hint = "where its images lie in [-1, 1], give a function that returns (generator(z) + 1) / 2"
            raise type(error)(f"what the generator made of latents {list(z.shape)}: {error}; {hint}") from None
        if len(images) != len(z):
            raise ValueError(f"the generator made {len(images)} images of {len(z)} latents, expected one each")
        return images.clamp(0, 1)


def _module(generator: object) -> nn.Module:
    """The module that generates: itself, that of a bound method, or one without parts."""
    owner = getattr(generator, "__self__", generator)
    return owner if isinstance(owner, nn.Module) else nn.Module()


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[torch.device | None]:
    """While this lasts every part is in evaluation mode; gives the device of the module's weights."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield next((weight.device for weight in module.parameters()), None)
    finally:
        for part in training:
            part.training = True
