"""`latent`: images that a generator makes from its latent."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farout.generators import GENERATORS, Generator, create, load
from farout.tensors import as_images
from farout.variations.bounds import check_latents
from farout.variations.catalog import VARIATIONS
from farout.variations.variation import Variation


@VARIATIONS.register("latent")
@dataclasses.dataclass(kw_only=True)
class Latent(Variation):
    """Latent of a generator, on the unit sphere: the StyleGAN2 of "Evaluation via Generation" (appendix D.2).

    It has no base: a search gets the number of chains instead. A module always generates in evaluation mode. In a study
    the generator is a file, or {name: stylegan2, train: {…}} and is then trained on every outlier set of the protocol.
    Latents of a `Generator` are normal, and so nearly of length √dim: a point of the unit sphere is scaled to it.
    """

    name = "latent"
    domain = "sphere"
    conditional = False
    generator: Callable[[Tensor], Tensor] | Generator | Path | Mapping[str, Any]
    """Module or function from latents [B, dim] to images [B, C, H, W] in [0, 1]; or a trained `Generator`, the file
    that its `save` wrote, or its name and settings."""
    dim: int = 64
    """Number of latent coordinates; of a `Generator`, its own."""

    def __post_init__(self) -> None:
        if isinstance(self.generator, str | Path):
            self.generator = load(self.generator)
        if isinstance(self.generator, Mapping):
            GENERATORS[str(self.generator.get("name"))]
        elif isinstance(self.generator, Generator):
            self.dim = _check_searchable(self.generator).dim
        elif not callable(self.generator) or isinstance(self.generator, type):
            raise TypeError(
                f"generator must be a module or a function from latents [B, dim] to images, a farout Generator, its "
                f"file or its name and settings, got {self.generator!r}"
            )
        if isinstance(self.dim, bool) or not isinstance(self.dim, int) or self.dim < 2:
            raise ValueError(f"dim must be a whole number of at least 2, got {self.dim!r}")

    @property
    def described(self) -> bool:
        """True if the generator is a name with settings, which a study trains first."""
        return isinstance(self.generator, Mapping)

    def suited(self, shape: tuple[int, ...]) -> Self:
        """Raise if the generator makes other images; one that is described is created, untrained, for this shape."""
        if isinstance(self.generator, Mapping):
            settings = {key: value for key, value in self.generator.items() if key not in ("name", "train", "label")}
            _check_searchable(create(self.generator["name"], shape[1], shape[0], **settings))
            return self
        with torch.no_grad():
            generated = tuple(self.decode(F.normalize(torch.ones(1, self.dim)), None).shape[1:])
        if generated != tuple(shape):
            raise ValueError(f"the generator makes images of shape {generated}, expected {tuple(shape)}")
        return self

    def identity(self) -> dict[str, Any]:
        if not isinstance(self.generator, Generator):
            return super().identity()
        generator = {"weights": self.generator.digest, **self.generator.identity()}
        return {"name": self.name, "version": self.version, "generator": generator}

    def decode(self, z: Tensor, base: None = None) -> Tensor:
        """Generate images from latents [B, dim], on the latents' device."""
        check_latents(z, len(z), self.dim)
        if isinstance(self.generator, Mapping):
            raise ValueError(f"{self.generator['name']} is not trained: a study trains it, or give a trained generator")
        if isinstance(self.generator, Generator):
            return self.generator.decode(z * math.sqrt(self.dim))
        assert not isinstance(self.generator, Path)
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


def _check_searchable(generator: Generator) -> Generator:
    """Return the generator; raise if it has no latent, or one for every class."""
    if not generator.dim or generator.classes:
        why = f"generates for {generator.classes} classes (classes: 0 for none)" if generator.dim else "has no latent"
        raise ValueError(f"{generator.name} {why}; a search needs a generator with a single latent, such as stylegan2")
    return generator


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
