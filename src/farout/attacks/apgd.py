"""`apgd_ce` and `apgd_t`: Auto-PGD (Croce and Hein 2020), the first two attacks of AutoAttack."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from farout.attacks.ascent import Loss, ascend
from farout.attacks.attack import Attack, epsilon_for
from farout.attacks.catalog import ATTACKS
from farout.attacks.gradients import add_uniform_noise, as_epsilon, ball, check_labels, misclassified, odds
from farout.attacks.target import Target
from farout.checks import check_count
from farout.networks.passes import with_gradients

TINY = 1e-12
"""Added to the denominator of the DLR loss, which is 0 where the four highest logits tie."""


@dataclasses.dataclass(kw_only=True)
class APGD(Attack):
    """Gradient ascent with momentum in the l_inf ball; the step size starts at 2ε and is halved when progress stalls.

    An image stops changing once it is misclassified, so an image that is misclassified from the start stays unchanged.
    If it is never misclassified, the point of the highest loss is returned.
    """

    epsilon: float | None = None
    """Bound on the change of a pixel; None: 8/255 for images up to 64 px, 4/255 for larger ones."""
    steps: int = 100
    restarts: int = 1
    """Number of random starting points in the ball."""

    def __post_init__(self) -> None:
        self.epsilon = as_epsilon(self.epsilon)
        check_count("steps", self.steps)
        check_count("restarts", self.restarts)

    def run(self, target: Target, images: Tensor, labels: Tensor, rngs: Sequence[torch.Generator]) -> Tensor:
        labels = check_labels(target, images, labels, rngs, self.least_classes)
        epsilon = epsilon_for(images, self.epsilon)
        with with_gradients():
            return self._run(target, images.detach().clone(), labels, rngs, epsilon)

    def _run(
        self, target: Target, clean: Tensor, labels: Tensor, rngs: Sequence[torch.Generator], eps: float
    ) -> Tensor:
        """Run the ascents; `left` holds the rows of the images that are still classified correctly.

        On a GPU, one is waited for between two ascents, not within.
        """
        with torch.no_grad():
            logits = target.logits(clean)
        adversarial, highest = clean.clone(), torch.full_like(logits[:, 0], -torch.inf)
        left = (~misclassified(logits, labels)).nonzero().flatten()
        for index in range(self.restarts * self.ascents(logits.shape[1])):
            if not len(left):
                break
            low, high = ball(clean[left], eps)
            start = add_uniform_noise(clean[left], low, high, eps, [rngs[row] for row in left.tolist()])
            loss = self.loss(logits[left], labels[left], index)
            best = ascend(target, loss, labels[left], start, low, high, 2 * eps, self.steps)
            better = best.misclassified | (best.loss > highest[left])
            adversarial[left[better]], highest[left[better]] = best.images[better], best.loss[better]
            left = left[~best.misclassified]
        return adversarial

    def ascents(self, classes: int) -> int:
        """Return the number of ascents per restart."""
        return 1

    @abstractmethod
    def loss(self, clean: Tensor, labels: Tensor, index: int) -> Loss:
        """Return the loss of one ascent; `clean` are the logits of the unperturbed images."""

    def passes(self, classes: int) -> int:
        return 1 + self.restarts * self.ascents(classes) * (self.steps + 1)


@ATTACKS.register("apgd_ce")
@dataclasses.dataclass(kw_only=True)
class APGDCE(APGD):
    """Auto-PGD on the cross-entropy."""

    name = "apgd_ce"

    def loss(self, clean: Tensor, labels: Tensor, index: int) -> Loss:
        return lambda logits, rows: odds(logits, labels[rows])


@ATTACKS.register("apgd_t")
@dataclasses.dataclass(kw_only=True)
class APGDT(APGD):
    """Auto-PGD on the targeted DLR loss: one ascent toward each of the likeliest other classes."""

    name = "apgd_t"
    least_classes: ClassVar[int] = 4
    targets: int = 9
    """Number of target classes: those with the highest logits on the unperturbed image."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("targets", self.targets)

    def ascents(self, classes: int) -> int:
        return max(0, min(self.targets, classes - 1))

    def loss(self, clean: Tensor, labels: Tensor, index: int) -> Loss:
        others = clean.scatter(1, labels[:, None], -torch.inf).argsort(1, descending=True)
        targets = others[:, index % self.ascents(clean.shape[1])]
        return lambda logits, rows: dlr(logits, labels[rows], targets[rows])


def dlr(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    """Return the targeted DLR loss −(l_y − l_t) / (l_π1 − (l_π3 + l_π4) / 2), eq. 7; π sorts logits downwards."""
    first, _, third, fourth = logits.topk(4).values.unbind(1)
    own, other = (logits.gather(1, classes[:, None]).squeeze(1) for classes in (labels, targets))
    return (other - own) / (first - (third + fourth) / 2 + TINY)
