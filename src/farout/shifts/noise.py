"""Noise corruptions: independent noise for every value of an image."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from farout.core import Params
from farout.shifts.catalog import register
from farout.shifts.corruption import Corruption
from farout.shifts.kernels.poisson import SMALLEST, poisson
from farout.shifts.tables import Row


class Normal(Corruption):
    """Corruption with a standard normal number for every value of the image."""

    def sample(self, shape: Sequence[int], rng: torch.Generator) -> Params:
        return {"noise": torch.randn(*shape, generator=rng)}


class Uniform(Corruption):
    """Corruption with a uniform number in (0, 1) for every value of the image."""

    def sample(self, shape: Sequence[int], rng: torch.Generator) -> Params:
        return {"uniform": torch.rand(*shape, generator=rng).clamp_(min=SMALLEST)}


@register
class GaussianNoise(Normal):
    """x + N(0, σ²)."""

    name = "gaussian_noise"

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        (sigma,) = constants
        return params["noise"].mul(sigma).add_(images)


@register
class SpeckleNoise(Normal):
    """x + x·N(0, σ²)."""

    name = "speckle_noise"

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        (sigma,) = constants
        return params["noise"].mul(sigma).mul_(images).add_(images)


@register
class ShotNoise(Uniform):
    """Poisson(λx)/λ."""

    name = "shot_noise"

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        (photons,) = constants
        return poisson(images, params["uniform"], photons).div_(photons)


@register
class ImpulseNoise(Uniform):
    """Salt and pepper noise: a fraction of the values becomes 0 or 1 with equal probability, per channel."""

    name = "impulse_noise"

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        (share,) = constants
        uniform = params["uniform"]
        kept, salt = (
            uniform.clone().ge_(share),
            uniform.clone().lt_(share / 2),
        )  # 0 or 1 as numbers, faster than `where`
        return kept.mul_(images).add_(salt)
