"""`masked_pgd`: projected gradient descent on the pixels of a square patch."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from farout.attacks.attack import SMALL, Attack
from farout.attacks.catalog import ATTACKS
from farout.attacks.gradients import LossName, as_epsilon, ball, check_labels, check_loss, sign_ascent
from farout.attacks.target import Target
from farout.checks import check_count, check_positive
from farout.networks.passes import with_gradients


@ATTACKS.register("masked_pgd")
@dataclasses.dataclass(kw_only=True)
class MaskedPGD(Attack):
    """Signed gradient steps within a patch at a random position in each image; the other pixels stay unchanged.

    It starts at the image and takes all steps, even after the image is misclassified.
    """

    name = "masked_pgd"
    side: int | None = None
    """Side of the patch in pixels; None: 8 for images up to 64 px, 60 for larger ones."""
    epsilon: float | None = 1.0
    """Bound on the change of a pixel of the patch; 1 or None: unbounded."""
    step: float = 0.01
    steps: int = 40
    loss: LossName = "cross_entropy"
    """Loss to ascend: as published, its float32 gradient vanishes for confident predictions; "odds" avoids that."""

    def __post_init__(self) -> None:
        if self.side is not None:
            check_count("side", self.side)
        self.epsilon = as_epsilon(self.epsilon)
        check_positive("step", self.step)
        check_count("steps", self.steps)
        check_loss(self.loss)

    def run(self, target: Target, images: Tensor, labels: Tensor, rngs: Sequence[torch.Generator]) -> Tensor:
        labels = check_labels(target, images, labels, rngs)
        outside = self.outside(images, rngs)
        with with_gradients():
            low, high = (
                torch.where(outside, images, bound)
                for bound in ball(images, 1.0 if self.epsilon is None else self.epsilon)
            )
            start = images.detach().clone()
            return sign_ascent(target, self.loss, start, labels, (low, high), self.step, self.steps)

    def unsuited(self, shape: tuple[int, int, int], classes: int) -> str | None:
        _, height, width = shape
        side = self._side(height, width)
        if side > min(height, width):
            return f"the patch of {self.label} has a side of {side} px, larger than the images' {height}×{width} px"
        return super().unsuited(shape, classes)

    def _side(self, height: int, width: int) -> int:
        return self.side if self.side is not None else 8 if max(height, width) <= SMALL else 60

    def outside(self, images: Tensor, rngs: Sequence[torch.Generator]) -> Tensor:
        """Return the mask of fixed pixels, [B, 1, H, W] bool: False in a random patch within the image."""
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
