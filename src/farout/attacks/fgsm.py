"""`fgsm`: the fast gradient sign method (Goodfellow et al. 2015, section 4)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from farout.attacks.attack import Attack, epsilon_for
from farout.attacks.catalog import ATTACKS
from farout.attacks.gradients import LossName, as_epsilon, ball, check_labels, check_loss, sign_ascent
from farout.attacks.target import Target
from farout.networks.passes import with_gradients


@ATTACKS.register("fgsm")
@dataclasses.dataclass(kw_only=True)
class FGSM(Attack):
    """One step of length ε: x' = x + ε·sign(∇ₓ CE(l(x), y)), clipped to [0, 1]. No random start.

    The paper's roadmap does not count it among the strong attacks of level 1.
    """

    name = "fgsm"
    level = 0
    epsilon: float | None = None
    """Bound on the change of a pixel; None: 8/255 for images up to 64 px, 4/255 for larger ones."""
    loss: LossName = "cross_entropy"
    """Loss to ascend: as published, its float32 gradient vanishes for confident predictions; "odds" avoids that."""

    def __post_init__(self) -> None:
        self.epsilon = as_epsilon(self.epsilon)
        check_loss(self.loss)

    def run(self, target: Target, images: Tensor, labels: Tensor, rngs: Sequence[torch.Generator]) -> Tensor:
        labels = check_labels(target, images, labels, rngs)
        epsilon = epsilon_for(images, self.epsilon)
        with with_gradients():
            return sign_ascent(
                target, self.loss, images.detach().clone(), labels, ball(images, epsilon), epsilon, steps=1
            )

    def passes(self, classes: int) -> int:
        return 1
