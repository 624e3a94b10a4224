"""Adversarial confidence-enhancing training (Hein et al. 2019, section 4), and its form in Bitterwolf et al. 2020."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from farout.attacks.gradients import ball
from farout.detectors.catalog import register
from farout.detectors.trained.ceda import CEDA, LowConfidence, Ramp, max_log_probability, progress
from farout.detectors.trained.detector import BY_PRESET, Preset, TrainingSets
from farout.detectors.trained.inner_attack import maximize
from farout.identity import Json
from farout.networks.network import Network
from farout.training import Batch, Context, Position, Recipe

EPSILON_NOISE, EPSILON_OUTLIERS = 0.3, 0.01
"""Radius of the ball around noise (Hein et al. 2019) and around outliers (Bitterwolf et al. 2020)."""


class AdversarialConfidence(LowConfidence):
    """Task of `LowConfidence` on outliers that maximize their loss in an l_inf ball first.

    The ascent starts at the outlier, with steps of 2ε/(steps + 1); on noise, at a random point whose distance is
    random too, with steps of ε/steps.
    """

    def __init__(
        self, network: Network, sets: TrainingSets, *, batch: int, kappa: Ramp, weight: float = 1.0, epsilon: float,
        after: float, steps: int,
    ) -> None:  # fmt: skip
        super().__init__(network, sets, batch=batch, kappa=kappa, weight=weight)
        self.epsilon, self.after, self.steps = epsilon, after, steps

    @property
    def identity(self) -> Json:
        return {"low confidence": super().identity, "attack": [self.epsilon, self.after, self.steps], "version": 1}

    @property
    def scalars(self) -> Mapping[str, Callable[[Position], float]]:  # type: ignore[override]
        return {**super().scalars, "epsilon": lambda at: self.epsilon if progress(at) >= self.after else 0.0}

    def select_outliers(self, batch: Batch, context: Context) -> Tensor:
        outliers, epsilon = super().select_outliers(batch, context), context.scalars["epsilon"]
        if not epsilon or not self.outlier_weight(context):  # the outliers would not matter
            return outliers
        return self.attack(outliers, epsilon, context.generator)

    def attack(self, images: Tensor, epsilon: float, generator: torch.Generator) -> Tensor:
        """Return the points of the ball around images in [0, 1] at which the network is most confident."""
        bounds = ball(images, epsilon)
        if not self.noise:
            step = 2 * epsilon / (self.steps + 1)
            return maximize(self.network, uniform_distance, images, bounds, step=step, steps=self.steps)
        reach = torch.rand(len(images), 1, 1, 1, generator=generator)
        noise = reach * (2 * torch.rand(images.shape, generator=generator) - 1) * epsilon
        start = (images + noise.to(images)).clamp(*bounds)
        return maximize(self.network, max_log_probability, start, bounds, step=epsilon / self.steps, steps=self.steps)


def uniform_distance(logits: Tensor) -> Tensor:
    """Return the cross entropy to the uniform distribution of every image, [B]."""
    return -logits.log_softmax(1).mean(1)


@register
@dataclass(kw_only=True, eq=False)
class ACET(CEDA):
    """ACET: CEDA on the most confident points of l_inf balls around the outliers, or around noise.

    With auxiliary outliers it is the version of GOOD's authors, which EvG tests at epoch 200 of its training.
    """

    name = "acet"
    presets: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {"small": {"steps": 3}, "full": {"steps": 40}}
    kappa: ClassVar[Mapping[Preset, Ramp]] = {"small": (0.0, 0.4), "full": (60 / 200, 360 / 200)}
    after: ClassVar[Mapping[Preset, float]] = {"small": 0.0, "full": 6 / 200}
    """Fraction of the training after which outliers are attacked."""
    steps: int = BY_PRESET
    """Steps of the inner maximization."""
    epsilon: float | None = None
    """Radius of the ball; None = 0.01 around outliers, 0.3 around noise."""

    def recipe(self) -> Recipe:
        recipe = super().recipe()
        return recipe.changed(epochs=200) if self.preset == "full" else recipe

    def exposed(self, sets: TrainingSets) -> LowConfidence:
        default = EPSILON_NOISE if sets.outliers is None else EPSILON_OUTLIERS
        return AdversarialConfidence(
            self.network, sets, batch=self.batch, kappa=self.kappa[self.preset], weight=self.weight,
            steps=self.steps, epsilon=default if self.epsilon is None else self.epsilon, after=self.after[self.preset],
        )  # fmt: skip
