"""`score_pgd`: gradient descent on a detector's score, so that outliers are scored as inliers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from farout.attacks.attack import Attack, epsilon_for
from farout.attacks.catalog import ATTACKS
from farout.attacks.estimates import DifferentiableTarget
from farout.attacks.gradients import add_uniform_noise, as_epsilon, ball
from farout.attacks.target import Target
from farout.checks import check_count, check_positive
from farout.networks.passes import with_gradients

MOMENTUM = 0.75
"""Momentum of the step direction (Dong et al. 2018, eq. 6)."""
MOMENTUM_ESTIMATED = 0.9
"""Momentum for estimated gradients: larger, so that consecutive steps share their queries."""


class Evaluation(NamedTuple):
    """Evaluation of the current images."""

    value: Tensor
    """Loss that the next step lowers, [B], with a gradient; its scale does not matter."""
    score: Tensor
    """Detector scores, [B]."""
    eligible: Tensor
    """True where the current image may be the result, [B] bool."""


@dataclasses.dataclass(kw_only=True)
class Descent(Attack):
    """Signed gradient steps in the l_inf ball and [0, 1], with step sizes on half a cosine; keeps the lowest score.

    A detector score without a gradient gets one estimated from `queries` scores per step.
    """

    level = 4
    epsilon: float | None = None
    """Bound on the change of a pixel; None: 8/255 for images up to 64 px, 4/255 for larger ones."""
    steps: int = 100
    step: float | None = None
    """Change of a pixel in the first step; None: epsilon / 4."""
    random_start: bool = True
    """Start at a uniform point of the ball; otherwise at the image itself."""
    queries: int = 50
    """Number of scores per gradient estimate; even, since each direction takes two."""
    reach: float = 0.01
    """Standard deviation of the noise per pixel in these queries."""

    def __post_init__(self) -> None:
        self.epsilon = as_epsilon(self.epsilon)
        check_count("steps", self.steps)
        check_count("queries", self.queries)
        if self.queries % 2:
            raise ValueError(f"queries must be even, as they come in pairs, got {self.queries}")
        check_positive("reach", self.reach)
        if self.step is not None:
            check_positive("step", self.step)

    def passes(self, classes: int) -> int:
        return 2 * self.steps + 1

    def descend(
        self,
        differentiable: DifferentiableTarget,
        images: Tensor,
        rngs: Sequence[torch.Generator],
        evaluate: Callable[[Tensor], Evaluation],
    ) -> Tensor:
        """Return every image's first eligible iterate with the lowest score; the last iterate if none is eligible."""
        if not len(images):
            return images.clone()
        epsilon = epsilon_for(images, self.epsilon)
        first = epsilon / 4 if self.step is None else self.step
        low, high = ball(images, epsilon)
        current = add_uniform_noise(images, low, high, epsilon, rngs) if self.random_start else images.detach().clone()
        lowest, direction = current, torch.zeros_like(current)
        best = torch.full((len(current),), math.inf, dtype=torch.float64, device=current.device)
        for index in range(self.steps + 1):
            evaluation = evaluate(current.requires_grad_())
            better = evaluation.eligible & (evaluation.score < best)
            best = torch.where(better, evaluation.score, best).detach()
            lowest = _where(better, current, lowest).detach()
            if index < self.steps:
                momentum = MOMENTUM_ESTIMATED if differentiable.estimated else MOMENTUM
                direction = momentum * direction + descent_direction(evaluation.value, current)
                length = first * (1 + math.cos(math.pi * index / self.steps)) / 2
                current = (current.detach() + length * direction.sign()).clamp(low, high)
        return _where(best < math.inf, lowest, current).detach()


@ATTACKS.register("score_pgd")
@dataclasses.dataclass(kw_only=True)
class ScorePGD(Descent):
    """Projected gradient descent on the detector's score alone, as Chen et al. 2021 test ATOM.

    The images are outliers and labels are not used; the result is the iterate with the lowest score. Step sizes follow
    half a cosine from a quarter of epsilon.
    """

    name = "score_pgd"
    against = "detector"

    def run(self, target: Target, images: Tensor, labels: Tensor, rngs: Sequence[torch.Generator]) -> Tensor:
        with with_gradients():
            differentiable = DifferentiableTarget.of(target, images, rngs, self.queries, self.reach)

            def evaluate(current: Tensor) -> Evaluation:
                scores = differentiable.score(current)
                return Evaluation(normalize_size(scores), scores.detach(), torch.ones_like(scores, dtype=torch.bool))

            return self.descend(differentiable, images, rngs, evaluate)


def normalize_size(scores: Tensor) -> Tensor:
    """Return the scores divided by their absolute values, so that tiny scores keep a gradient in float32."""
    return scores / scores.detach().abs().clamp(min=1e-20)


def descent_direction(values: Tensor, images: Tensor) -> Tensor:
    """Return minus the gradient of every value, scaled to mean size 1 (Dong et al. 2018, eq. 6); NaN becomes 0."""
    (gradient,) = torch.autograd.grad(values.sum(), images)
    gradient = gradient.nan_to_num(0.0, 0.0, 0.0)
    size = gradient.abs().flatten(1).mean(1).clamp(min=torch.finfo(gradient.dtype).tiny)
    return -gradient / size[:, None, None, None]


def _where(selected: Tensor, images: Tensor, others: Tensor) -> Tensor:
    """Return `images` where selected, else `others`."""
    return torch.where(selected[:, None, None, None], images, others)
