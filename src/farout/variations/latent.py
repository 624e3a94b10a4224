"""`latent`: images that a generator makes from its latent."""

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
    """Latent of a generator, on the unit sphere: the StyleGAN2 of "Evaluation via Generation" (appendix D.2).

    It has no base: a search gets the number of chains instead. A module always generates in evaluation mode.
    """

    name = "latent"
    domain = "sphere"
    conditional = False
    generator: Callable[[Tensor], Tensor]
    """Module or function from latents [B, dim] to images [B, C, H, W] in [0, 1]."""
    dim: int = 64
    """Number of latent coordinates."""

    def __post_init__(self) -> None:
        if not callable(self.generator) or isinstance(self.generator, type):
            raise TypeError(
                f"generator must be a module or a function from latents [B, dim] to images, got {self.generator!r}"
            )
        if isinstance(self.dim, bool) or not isinstance(self.dim, int) or self.dim < 2:
            raise ValueError(f"dim must be a whole number of at least 2, got {self.dim!r}")

    def suited(self, shape: tuple[int, ...]) -> Self:
        with torch.no_grad():
            generated = tuple(self.decode(F.normalize(torch.ones(1, self.dim)), None).shape[1:])
        if generated != tuple(shape):
            raise ValueError(f"the generator makes images of shape {generated}, expected {tuple(shape)}")
        return self

    def decode(self, z: Tensor, base: None = None) -> Tensor:
        """Generate images from latents [B, dim], on the latents' device."""
        check_latents(z, len(z), self.dim)
        with _evaluation_mode(_module(self.generator)) as device:
            images = self.generator(z.to(device))
        try:
            images = as_images(images, z.device)
        except (TypeError, ValueError) as error:
            hint = "if its images lie in [-1, 1], give a function that returns (generator(z) + 1) / 2"
            raise type(error)(f"the generator's output for latents {list(z.shape)}: {error}; {hint}") from None
        if len(images) != len(z):
            raise ValueError(f"the generator returned {len(images)} images for {len(z)} latents, expected one each")
        return images.clamp(0, 1)


def _module(generator: object) -> nn.Module:
    """Return the generating module: itself, the owner of a bound method, or an empty one."""
    owner = getattr(generator, "__self__", generator)
    return owner if isinstance(owner, nn.Module) else nn.Module()


@contextmanager
def _evaluation_mode(module: nn.Module) -> Iterator[torch.device | None]:
    """Set all parts to evaluation mode inside the block; yield the device of the module's weights."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield next((weight.device for weight in module.parameters()), None)
    finally:
        for part in training:
            part.training = True
