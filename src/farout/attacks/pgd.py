"""`pgd`: projected gradient descent in the l_inf ball (Madry et al. 2018)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from farout.attacks.attack import Attack, epsilon_for
from farout.attacks.catalog import ATTACKS
from farout.attacks.gradients import Climbed, as_epsilon, ball, check_loss, checked, climb, scattered
from farout.attacks.victim import Victim
from farout.checks import check_count, check_positive
from farout.networks.passes import with_gradients


@ATTACKS.register("pgd")
@dataclasses.dataclass(kw_only=True)
class PGD(Attack):
    """Steps of the sign of the cross-entropy's gradient, each projected on the ball and on [0, 1].

    All steps are taken, also after the classifier errs, so that it ends up sure of its error.
    """

    name = "pgd"
    epsilon: float | None = None
    """Bound on the change of a pixel; 8/255 up to 64 px, 4/255 for larger images unless given."""
    steps: int = 40
    step: float | None = None
    """Change of a pixel in one step; a thirtieth of epsilon unless given."""
    random_start: bool = True
    """From a uniform point of the ball; otherwise from the image itself, where a kink may hide the way up."""
    loss: Climbed = "cross_entropy"
    """As published, in float32, which loses the way where the classifier is sure; "odds" does not, and fools more."""

    def __post_init__(self) -> None:
        self.epsilon = as_epsilon(self.epsilon)
        check_count("steps", self.steps)
        check_loss(self.loss)
        if self.step is not None:
            check_positive("step", self.step)

    def run(self, victim: Victim, images: Tensor, labels: Tensor, rngs: Sequence[torch.Generator]) -> Tensor:
        labels = checked(victim, images, labels, rngs)
        epsilon = epsilon_for(images, self.epsilon)
        step = epsilon / 30 if self.step is None else self.step
        with with_gradients():
            low, high = ball(images, epsilon)
            given = images.detach()
            start = scattered(given, low, high, epsilon, rngs) if self.random_start else given.clone()
            return climb(victim, self.loss, start, labels, (low, high), step, self.steps)

    def passes(self, classes: int) -> int:
        return self.steps
