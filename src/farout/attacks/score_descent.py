"""`score_pgd`: outliers that a detector takes for inliers, by descent on its score."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from farout.attacks.attack import Attack, epsilon_for
from farout.attacks.catalog import ATTACKS
from farout.attacks.estimates import Sight
from farout.attacks.gradients import as_epsilon, ball, scattered
from farout.attacks.victim import Victim
from farout.checks import check_count, check_positive
from farout.networks.passes import with_gradients

MOMENTUM = 0.75
"""Share of the past in the direction of a step (Dong et al. 2018, eq. 6)."""
LONGER = 0.9
"""The same where gradients are estimated: steps share their queries."""


class Seen(NamedTuple):
    """What is known of the images after a look."""

    value: Tensor
    """What the next step shall lower, [B], with a gradient; its unit does not matter."""
    score: Tensor
    """The detector's scores, [B]."""
    counts: Tensor
    """May the state be kept? [B] bool."""


@dataclasses.dataclass(kw_only=True)
class Descent(Attack):
    """Signed gradient steps in the l_inf ball and [0, 1] that shrink along half a cosine; the lowest score is kept.

    Where the detector's score has no gradient, it is estimated from `queries` scores per step.
    """

    level = 4
    epsilon: float | None = None
    """Bound on the change of a pixel; 8/255 up to 64 px, 4/255 for larger images unless given."""
    steps: int = 100
    step: float | None = None
    """Change of a pixel in the first step; a quarter of epsilon unless given."""
    random_start: bool = True
    """From a uniform point of the ball; otherwise from the image itself."""
    queries: int = 50
    """Scores that the estimate of a gradient takes, an even number: two for every direction."""
    reach: float = 0.01
    """Standard deviation of a pixel's change in these."""

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
        self, sight: Sight, images: Tensor, rngs: Sequence[torch.Generator], see: Callable[[Tensor], Seen]
    ) -> Tensor:
        """Of every image the first state with the lowest score among those that count; the last where none does."""
        if not len(images):
            return images.clone()
        epsilon = epsilon_for(images, self.epsilon)
        first = epsilon / 4 if self.step is None else self.step
        low, high = ball(images, epsilon)
        now = scattered(images, low, high, epsilon, rngs) if self.random_start else images.detach().clone()
        kept, way = now, torch.zeros_like(now)
        best = torch.full((len(now),), math.inf, dtype=torch.float64, device=now.device)
        for index in range(self.steps + 1):
            seen = see(now.requires_grad_())
            better = seen.counts & (seen.score < best)
            best, kept = torch.where(better, seen.score, best).detach(), _where(better, now, kept).detach()
            if index < self.steps:
                way = (LONGER if sight.estimated else MOMENTUM) * way + downhill(seen.value, now)
                length = first * (1 + math.cos(math.pi * index / self.steps)) / 2
                now = (now.detach() + length * way.sign()).clamp(low, high)
        return _where(best < math.inf, kept, now).detach()


@ATTACKS.register("score_pgd")
@dataclasses.dataclass(kw_only=True)
class ScorePGD(Descent):
    """Projected gradient descent on the detector's score alone, as Chen et al. 2021 test ATOM.

    Images are outliers, and labels play no part: the state of lowest score is what the detector would rather take for
    an inlier. Steps shrink along half a cosine from a quarter of epsilon.
    """

    name = "score_pgd"
    against = "detector"

    def run(self, victim: Victim, images: Tensor, labels: Tensor, rngs: Sequence[torch.Generator]) -> Tensor:
        with with_gradients():
            sight = Sight.of(victim, images, rngs, self.queries, self.reach)

            def see(now: Tensor) -> Seen:
                scores = sight.score(now)
                return Seen(leveled(scores), scores.detach(), torch.ones_like(scores, dtype=torch.bool))

            return self.descend(sight, images, rngs, see)


def leveled(scores: Tensor) -> Tensor:
    """The scores divided by their sizes, so that those ever so near to 0 keep a gradient in float32."""
    return scores / scores.detach().abs().clamp(min=1e-20)


def downhill(values: Tensor, images: Tensor) -> Tensor:
    """Minus the gradient of every image's value, its mean size 1 (Dong et al. 2018, eq. 6); where it is NaN, 0."""
    (found,) = torch.autograd.grad(values.sum(), images)
    found = found.nan_to_num(0.0, 0.0, 0.0)
    return -found / found.abs().flatten(1).mean(1).clamp(min=torch.finfo(found.dtype).tiny)[:, None, None, None]


def _where(chosen: Tensor, these: Tensor, those: Tensor) -> Tensor:
    """Images of the one or the other batch."""
    return torch.where(chosen[:, None, None, None], these, those)
