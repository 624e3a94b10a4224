"""`masked_pgd`: projected gradient descent that may change a square patch alone, as far as it likes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from farout.attacks.attack import SMALL, Attack
from farout.attacks.catalog import ATTACKS
from farout.attacks.gradients import Climbed, as_epsilon, ball, check_loss, checked, climb
from farout.attacks.victim import Victim
from farout.checks import check_count, check_positive
from farout.networks.passes import with_gradients


@ATTACKS.register("masked_pgd")
@dataclasses.dataclass(kw_only=True)
class MaskedPGD(Attack):
    """Steps of the gradient's sign within a patch whose place is drawn for every image; all else stays as it is.

    It starts at the image and takes all steps, also after the classifier errs.
    """

    name = "masked_pgd"
    side: int | None = None
    """Of the patch, in pixels; 8 for images up to 64 px, 60 for larger ones unless given."""
    epsilon: float | None = 1.0
    """Bound on the change of a pixel of the patch; 1 or None is none."""
    step: float = 0.01
    steps: int = 40
    loss: Climbed = "cross_entropy"
    """As published, in float32, which loses the way where the classifier is sure; "odds" does not, and fools more."""

    def __post_init__(self) -> None:
        if self.side is not None:
            check_count("side", self.side)
        self.epsilon = as_epsilon(self.epsilon)
        check_positive("step", self.step)
        check_count("steps", self.steps)
        check_loss(self.loss)

    def run(self, victim: Victim, images: Tensor, labels: Tensor, rngs: Sequence[torch.Generator]) -> Tensor:
        labels = checked(victim, images, labels, rngs)
        outside = self.outside(images, rngs)
        with with_gradients():
            low, high = (
                torch.where(outside, images, bound)
                for bound in ball(images, 1.0 if self.epsilon is None else self.epsilon)
            )
            start = images.detach().clone()
            return climb(victim, self.loss, start, labels, (low, high), self.step, self.steps)

    def unsuited(self, shape: tuple[int, int, int], classes: int) -> str | None:
        _, height, width = shape
        side = self._side(height, width)
        if side > min(height, width):
            return f"the patch of {self.label} has a side of {side} px, and the images are {height}×{width} px"
        return super().unsuited(shape, classes)

    def _side(self, height: int, width: int) -> int:
        return self.side if self.side is not None else 8 if max(height, width) <= SMALL else 60

    def outside(self, images: Tensor, rngs: Sequence[torch.Generator]) -> Tensor:
        """What must stay: [B, 1, H, W] bool, False in a patch that lies within the image."""
        channels, height, width = images.shape[1:]
        side = self._side(height, width)
        if reason := self.unsuited((channels, height, width), self.least_classes):
            raise ValueError(reason)
        kept = torch.ones(len(images), 1, height, width, dtype=torch.bool)
        for image, rng in zip(kept, rngs, strict=True):
            top, left = (int(torch.randint(free - side + 1, (), generator=rng)) for free in (height, width))
            image[:, top : top + side, left : left + side] = False
        return kept.to(images.device)

    def passes(self, classes: int) -> int:
        return self.steps
