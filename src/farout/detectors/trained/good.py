"""Guaranteed out-of-distribution detection (Bitterwolf et al. 2020, "Certifiably Adversarially Robust Detection of
Out-of-Distribution Data")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from farout.attacks.gradients import ball
from farout.core import NotFitted
from farout.detectors.catalog import register
from farout.detectors.math.interval_bounds import Box, log_confidence_bound, logit_gaps, propagate
from farout.detectors.trained.ceda import CEDA, LowConfidence, Ramp, progress
from farout.detectors.trained.detector import Outliers, Preset, TrainingSets
from farout.detectors.trained.fine_tuned import AnyNetworkDetector
from farout.detectors.trained.plain_network import PlainNetwork
from farout.identity import Json
from farout.networks.network import Network
from farout.training import Batch, Context, Position, Recipe, Stage, ramp

CEDA_STAGE, GOOD_STAGE = "ceda", "good"


class GuaranteedClassifier(LowConfidence):
    """Task in two stages: CEDA, then the loss of GOOD on bounds over boxes around the outliers."""

    def __init__(
        self, network: Network, sets: TrainingSets, *, batch: int, kappa: Ramp, changes: Mapping[str, Any],
        quantile: float, epsilon: float, bound_weight: float, ramps: tuple[Ramp, Ramp],
    ) -> None:  # fmt: skip
        """changes: settings of GOOD's stage. bound_weight: final κ in it. ramps: rise of κ and of ε in it."""
        super().__init__(network, sets, batch=batch, kappa=kappa)
        self.quantile, self.epsilon, self.bound_weight, self.ramps = quantile, epsilon, bound_weight, ramps
        self.stages = (Stage(CEDA_STAGE), Stage(GOOD_STAGE, changes))

    @property
    def identity(self) -> Json:
        settings = [self.quantile, self.epsilon, self.bound_weight, [list(one) for one in self.ramps]]
        return {"ceda": super().identity, "good": settings, "version": 1}

    @property
    def scalars(self) -> Mapping[str, Callable[[Position], float]]:  # type: ignore[override]
        first, (rise, radius) = super().scalars["kappa"], self.ramps
        return {
            "kappa": lambda at: (
                ramp(progress(at), *rise, 0.0, self.bound_weight) if at.stage == GOOD_STAGE else first(at)
            ),
            "epsilon": lambda at: ramp(progress(at), *radius, 0.0, self.epsilon),
        }

    def loss(self, player: str, batch: Batch, context: Context) -> Tensor:
        if context.position.stage == CEDA_STAGE:
            return super().loss(player, batch, context)
        assert batch.labels is not None
        outliers, epsilon = self.select_outliers(batch, context), context.scalars["epsilon"]
        logits = self.network(torch.cat([batch.images, outliers]), needs=()).logits
        inside, outside = logits.split([len(batch.images), len(outliers)])
        gaps = certified_gaps(self.network, outliers - epsilon, outliers + epsilon)
        loss = F.cross_entropy(inside, batch.labels)
        return loss + self.outlier_weight(context) * quantile_loss(gaps, outside, self.quantile)


def certified_gaps(network: Network, lower: Tensor, upper: Tensor) -> Tensor:
    """Return upper bounds of all logit differences z_k − z_j, [B, K, K], for images between these bounds."""
    module = network.module
    assert isinstance(module, PlainNetwork)
    return logit_gaps(
        module.linear, propagate(module.features, Box(network.normalize(lower), network.normalize(upper)))
    )


def quantile_loss(gaps: Tensor, logits: Tensor, quantile: float) -> Tensor:
    """Return the mean loss on outliers, eq. 10: of bounds for those with the smallest, of the logits for the others.

    Both are log(1 + u²/2), eq. 8, for the largest bound u of a logit difference, or for the largest difference itself.
    """
    bound, difference = gaps.flatten(1).amax(1), logits.amax(1) - logits.amin(1)
    ranks = bound.argsort().argsort()
    reach = torch.where(ranks < int(quantile * len(bound)), bound, difference)
    return torch.log1p(reach.square() / 2).mean()


@register
@dataclass(kw_only=True, eq=False)
class GOOD(CEDA):
    """GOOD: maximum softmax probability of a classifier whose confidence around outliers is bounded.

    `certified_confidence` gives the bound. The first stage trains CEDA, from whose weights GOOD starts; `training`
    changes both. Losses are means where the authors add them up.
    """

    name = "good"
    outliers: ClassVar[Outliers] = "required"
    added: ClassVar[frozenset[str]] = AnyNetworkDetector.added
    ramps: ClassVar[Mapping[Preset, tuple[Ramp, Ramp]]] = {
        "small": ((0.0, 0.4), (0.0, 0.4)),
        "full": ((-2 / 900, 298 / 900), (4 / 900, 204 / 900)),
    }
    """Rise of κ, the weight of the loss on outliers, and of ε in the second stage."""
    quantile: float = 0.8
    """Fraction of the outliers of a batch whose bounds are trained: GOOD80."""
    epsilon: float = 0.01
    """Radius of the box around an outlier."""
    weight: float = 1.0
    """Final κ of the loss on bounds, in the second stage: less keeps more of the accuracy and proves less."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.architecture is not None:
            raise ValueError("good: bounds are computed for its own network alone: leave out architecture")
        if not 0 <= self.quantile <= 1:
            raise ValueError(f"good: quantile must be from 0 to 1 (GOOD80 is 0.8), got {self.quantile}")
        if not self.weight >= 0:
            raise ValueError(f"good: weight must be 0 or more (the paper's is 1), got {self.weight}")

    def recipe(self) -> Recipe:
        recipe = super().recipe()
        return recipe if self.preset == "full" else recipe.changed(epochs=6)

    def exposed(self, sets: TrainingSets) -> LowConfidence:
        return GuaranteedClassifier(
            self.network, sets, batch=self.batch, kappa=self.kappa[self.preset], quantile=self.quantile,
            epsilon=self.epsilon, bound_weight=self.weight, ramps=self.ramps[self.preset], changes=self._second(),
        )  # fmt: skip

    def _second(self) -> Mapping[str, Any]:
        """Return the settings of the second stage."""
        own: dict[str, Any] = {"epochs": 15, "lr": 5e-4}
        if self.preset == "full":
            own = {"epochs": 900, "lr": 1e-4, "milestones": (450, 750, 850)}
        if "steps" in self.training:
            own["epochs"] = None
        return {**own, **{name: value for name, value in self.training.items() if name != "seed"}}

    def certified_confidence(self, images: Tensor, epsilon: float | None = None) -> Tensor:
        """Return an upper bound of max p over all images in [0, 1] within ε of each image, [B] float64.

        epsilon: radius of the l_inf ball; None = that of training.
        """
        if self.inputs is None:
            raise NotFitted("good is not fitted: call fit on the inliers' train split, or load weights, first")
        self.to(images.device)
        lower, upper = ball(images, self.epsilon if epsilon is None else epsilon)
        return log_confidence_bound(certified_gaps(self.network, lower, upper)).exp()
