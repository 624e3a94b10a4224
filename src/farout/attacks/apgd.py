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
from farout.attacks.gradients import as_epsilon, ball, checked, fooled, odds, scattered
from farout.attacks.victim import Victim
from farout.checks import check_count
from farout.networks.passes import with_gradients

TINY = 1e-12
"""Nothing is divided by 0 where the four highest logits tie."""


@dataclasses.dataclass(kw_only=True)
class APGD(Attack):
    """Ascent with momentum in the l_inf ball; its step, 2ε at first, is halved where it no longer helps.

    An image is left alone as soon as the classifier errs, so one that was wrong from the start stays as it was. Where
    it never errs, the point of the highest loss is given.
    """

    epsilon: float | None = None
    """Bound on the change of a pixel; 8/255 up to 64 px, 4/255 for larger images unless given."""
    steps: int = 100
    restarts: int = 1
    """How often it sets out from a random point of the ball."""

    def __post_init__(self) -> None:
        self.epsilon = as_epsilon(self.epsilon)
        check_count("steps", self.steps)
        check_count("restarts", self.restarts)

    def run(self, victim: Victim, images: Tensor, labels: Tensor, rngs: Sequence[torch.Generator]) -> Tensor:
        labels = checked(victim, images, labels, rngs, self.least_classes)
        epsilon = epsilon_for(images, self.epsilon)
        with with_gradients():
            return self._run(victim, images.detach().clone(), labels, rngs, epsilon)

    def _run(
        self, victim: Victim, given: Tensor, labels: Tensor, rngs: Sequence[torch.Generator], eps: float
    ) -> Tensor:
        """Round after round; `left` are the places of the images that the classifier still gets right."""
        with torch.no_grad():
            logits = victim.logits(given)
        found, highest = given.clone(), torch.full_like(logits[:, 0], -torch.inf)
        left = (~fooled(logits, labels)).nonzero().flatten()
        for turn in range(self.restarts * self.turns(logits.shape[1])):
            if not len(left):
                break
            low, high = ball(given[left], eps)
            start = scattered(given[left], low, high, eps, [rngs[place] for place in left.tolist()])
            loss = self.loss(logits[left], labels[left], turn)
            best = ascend(victim, loss, labels[left], start, low, high, 2 * eps, self.steps)
            better = best.fooled | (best.loss > highest[left])
            found[left[better]], highest[left[better]] = best.images[better], best.loss[better]
            left = left[~best.fooled]
        return found

    def turns(self, classes: int) -> int:
        """How many ascents a restart takes."""
        return 1

    @abstractmethod
    def loss(self, clean: Tensor, labels: Tensor, turn: int) -> Loss:
        """What grows in this turn, given the logits of the unchanged images."""

    def passes(self, classes: int) -> int:
        return 1 + self.restarts * self.turns(classes) * (self.steps + 1)


@ATTACKS.register("apgd_ce")
@dataclasses.dataclass(kw_only=True)
class APGDCE(APGD):
    """Auto-PGD on the cross-entropy."""

    name = "apgd_ce"

    def loss(self, clean: Tensor, labels: Tensor, turn: int) -> Loss:
        return lambda logits, at: odds(logits, labels[at])


@ATTACKS.register("apgd_t")
@dataclasses.dataclass(kw_only=True)
class APGDT(APGD):
    """Auto-PGD on the targeted DLR loss, once towards each of the other classes that are likeliest at first."""

    name = "apgd_t"
    least_classes: ClassVar[int] = 4
    targets: int = 9
    """How many other classes, those of the highest logits for the unchanged image."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("targets", self.targets)

    def turns(self, classes: int) -> int:
        return max(0, min(self.targets, classes - 1))

    def loss(self, clean: Tensor, labels: Tensor, turn: int) -> Loss:
        others = clean.scatter(1, labels[:, None], -torch.inf).argsort(1, descending=True)
        targets = others[:, turn % self.turns(clean.shape[1])]
        return lambda logits, at: dlr(logits, labels[at], targets[at])


def dlr(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    """The targeted difference of logits ratio −(l_y − l_t) / (l_π1 − (l_π3 + l_π4) / 2), eq. 7; π sorts downwards."""
    first, _, third, fourth = logits.topk(4).values.unbind(1)
    own, other = (logits.gather(1, classes[:, None]).squeeze(1) for classes in (labels, targets))
    return (other - own) / (first - (third + fourth) / 2 + TINY)
