"""`pgd`: projected gradient descent in the l_inf ball (Madry et al. 2018)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from farout.attacks.attack import Attack, epsilon_for
from farout.attacks.catalog import ATTACKS
from farout.attacks.gradients import (
    LossName,
    add_uniform_noise,
    as_epsilon,
    ball,
    check_labels,
    check_loss,
    sign_ascent,
)
from farout.attacks.target import Target
from farout.checks import check_count, check_positive
from farout.networks.passes import with_gradients


@ATTACKS.register("pgd")
@dataclasses.dataclass(kw_only=True)
class PGD(Attack):
    """Signed steps along the gradient of the cross-entropy, each projected onto the ball and onto [0, 1].

    All steps are taken, even after the image is misclassified, so that the classifier becomes confident in its error.
    """

    name = "pgd"
    epsilon: float | None = None
    """Bound on the change of a pixel; None: 8/255 for images up to 64 px, 4/255 for larger ones."""
    steps: int = 40
    step: float | None = None
    """Change of a pixel in one step; None: epsilon / 30."""
    random_start: bool = True
    """Start at a uniform point of the ball; otherwise at the image itself, where the gradient may vanish."""
    loss: LossName = "cross_entropy"
    """Loss to ascend: as published, its float32 gradient vanishes for confident predictions; "odds" avoids that."""

    def __post_init__(self) -> None:
        self.epsilon = as_epsilon(self.epsilon)
        check_count("steps", self.steps)
        check_loss(self.loss)
        if self.step is not None:
            check_positive("step", self.step)

    def run(self, target: Target, images: Tensor, labels: Tensor, rngs: Sequence[torch.Generator]) -> Tensor:
        labels = check_labels(target, images, labels, rngs)
        epsilon = epsilon_for(images, self.epsilon)
        step = epsilon / 30 if self.step is None else self.step
        with with_gradients():
            low, high = ball(images, epsilon)
            clean = images.detach()
            start = add_uniform_noise(clean, low, high, epsilon, rngs) if self.random_start else clean.clone()
            return sign_ascent(target, self.loss, start, labels, (low, high), step, self.steps)

    def passes(self, classes: int) -> int:
        return self.steps
