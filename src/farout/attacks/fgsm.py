"""`fgsm`: the fast gradient sign method (Goodfellow et al. 2015, section 4)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from farout.attacks.attack import Attack, epsilon_for
from farout.attacks.catalog import ATTACKS
from farout.attacks.gradients import Climbed, as_epsilon, ball, check_loss, checked, climb
from farout.attacks.victim import Victim
from farout.networks.passes import with_gradients


@ATTACKS.register("fgsm")
@dataclasses.dataclass(kw_only=True)
class FGSM(Attack):
    """One step as far as the bound lets: x' = x + ε·sign(∇ₓ CE(l(x), y)), clipped to [0, 1]. No random start.

    The paper's roadmap does not count it among the strong attacks of level 1.
    """

    name = "fgsm"
    level = 0
    epsilon: float | None = None
    """Bound on the change of a pixel; 8/255 up to 64 px, 4/255 for larger images unless given."""
    loss: Climbed = "cross_entropy"
    """As published, in float32, which loses the way where the classifier is sure; "odds" does not, and fools more."""

    def __post_init__(self) -> None:
        self.epsilon = as_epsilon(self.epsilon)
        check_loss(self.loss)

    def run(self, victim: Victim, images: Tensor, labels: Tensor, rngs: Sequence[torch.Generator]) -> Tensor:
        labels = checked(victim, images, labels, rngs)
        epsilon = epsilon_for(images, self.epsilon)
        with with_gradients():
            return climb(victim, self.loss, images.detach().clone(), labels, ball(images, epsilon), epsilon, steps=1)

    def passes(self, classes: int) -> int:
        return 1
