"""Likelihood ratio to a background model (Ren et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from farout.detectors.catalog import register
from farout.detectors.trained.density import DENSITY, Density, Likelihood
from farout.detectors.trained.detector import Inputs, TrainingSets
from farout.detectors.trained.on_density import OnDensity
from farout.identity import Json
from farout.training import Context, Player, Stage, Task

BACKGROUND = "background"
"""Module and stage of the background model."""
VALUES = 256


class TwoLikelihoods(Likelihood):
    """Maximize the likelihood of inliers, then that of mutated inliers by the background model."""

    def __init__(self, modules: Mapping[str, nn.Module], sets: TrainingSets, mutation: float, penalty: float) -> None:
        self.modules, self.train, self.val, self.mutation = modules, sets.train, sets.val, mutation
        # The penalty λ Σ w² has the gradient 2 λ w, which is what a weight decay of 2 λ adds.
        self.stages = (Stage(DENSITY, keep="min"), Stage(BACKGROUND, {"weight_decay": 2 * penalty}, keep="min"))

    @property
    def identity(self) -> Json:
        return {"name": "likelihood ratio", "version": 1, "mutation": self.mutation, "val": self.val.fingerprint}

    def players(self, stage: str) -> tuple[Player, ...]:
        return (Player(stage, (stage,)),)

    def trained(self, context: Context) -> Density:
        density = self.modules[context.position.stage]
        assert isinstance(density, Density)
        return density

    def prepared(self, images: Tensor, context: Context) -> Tensor:
        if context.position.stage == BACKGROUND:
            images = mutate(images, self.mutation, context.generator)
        return super().prepared(images, context)


def mutate(images: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Return 8-bit images with values replaced, each with this probability, by uniform ones."""
    mutated = torch.rand(images.shape, generator=generator) < rate
    drawn = torch.randint(VALUES, images.shape, generator=generator).to(images) / (VALUES - 1)
    return torch.where(mutated.to(images.device), drawn, images)


@register
@dataclass(kw_only=True, eq=False)
class LikelihoodRatio(OnDensity):
    """log p₀(x) − log p(x), in bits per dimension; p₀ is trained on mutated inliers."""

    name = "likelihood_ratio"
    mutation: float = 0.1
    """Probability with which a value is mutated for the background model."""
    penalty: float = 0.0
    """Factor of the squared weights of the background model."""

    def __post_init__(self) -> None:
        if not 0 < self.mutation <= 1 or self.penalty < 0:
            raise ValueError(
                f"{self.name}: expected 0 < mutation <= 1 and penalty >= 0, got mutation={self.mutation} and "
                f"penalty={self.penalty}"
            )
        super().__post_init__()

    def build(self, inputs: Inputs) -> dict[str, nn.Module]:
        return {name: self.source.density(inputs.channels, inputs.side) for name in (DENSITY, BACKGROUND)}

    def task(self, sets: TrainingSets) -> Task:
        return TwoLikelihoods(self.modules, sets, self.mutation, self.penalty)

    def compute(self, images: Tensor) -> Tensor:
        return self.bits(DENSITY, images) - self.bits(BACKGROUND, images)
