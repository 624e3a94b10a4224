"""Generators by name: one of the user's is made with its side, sampled, and searched in its latent."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import farout
from farout import rng
from farout.core import ImageSet
from farout.generators import Generator
from farout.registry import UnknownName


@dataclasses.dataclass(kw_only=True)
class Gray(Generator):
    """Images of one gray level, the norm of the latent's first half."""

    name = "gray"
    side: int
    channels: int = 3
    dim = 4

    def fit(self, train: ImageSet, *, val: ImageSet | None = None, seed: int = 0, **settings: Any) -> Gray:
        return self

    def sample(self, n: int, seed: int = 0) -> Tensor:
        z = torch.randn(n, self.dim, generator=rng.generator(seed))
        return self.decode(z / z.norm(dim=1, keepdim=True))

    def decode(self, z: Tensor) -> Tensor:
        return z[:, :2].norm(dim=1)[:, None, None, None].expand(-1, self.channels, self.side, self.side).float()

    def save(self, path: str | Path) -> None: ...

    def load(self, path: str | Path) -> Gray:
        return self


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"unknown generator 'dc_gan'. Did you mean 'dcgan'"):
        farout.generators.create("dc_gan", 32)


def test_one_of_the_users_is_made_by_name_and_samples_by_seed() -> None:
    farout.register(Gray)
    generator = farout.generators.create("gray", 8, channels=1)
    images = generator.sample(3, seed=5)
    assert images.shape == (3, 1, 8, 8)
    assert torch.equal(images, generator.sample(3, seed=5))
    assert not torch.equal(images, generator.sample(3, seed=6))
    with pytest.raises(NotImplementedError, match=r"gray cannot translate images; use sample\(n, seed\)"):
        generator.translate(images)


def test_its_latent_is_a_variation() -> None:
    generator = Gray(side=8)
    latent = farout.variations.Latent(generator=generator.decode, dim=generator.dim)
    decoded = latent.decode(torch.tensor([[0.6, 0.0, 0.8, 0.0]]), None)
    assert torch.equal(decoded, torch.full((1, 3, 8, 8), 0.6))
