"""Scores that always have a gradient: the detector's own, or one estimated from differences of its scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from farout.attacks.victim import Victim
from farout.networks.passes import with_gradients

PROBES = 4
"""Images of noise by which it is found out whether a detector's scores have a gradient."""


@dataclass(frozen=True)
class Sight:
    """What an attack sees of a victim: scores that pass gradients to the images, whatever the detector is made of.

    A detector whose scores have no gradient (numpy, ONNX, a service), none but zeros (it rounds what it sees), or that
    fails on images that require one, gets an estimated one. Which it is does not depend on the images attacked.
    """

    victim: Victim
    rngs: Sequence[torch.Generator]
    """Of every image, on the CPU."""
    queries: int
    """Scores that an estimate takes, beside that of the image itself."""
    reach: float
    """Standard deviation of a pixel's change in these queries."""
    estimated: bool
    """Are gradients estimated?"""

    @classmethod
    def of(cls, victim: Victim, images: Tensor, rngs: Sequence[torch.Generator], queries: int, reach: float) -> Sight:
        """That of images of this shape: a few images of noise tell whether the scores have a gradient."""
        return cls(victim, rngs, queries, reach, without_gradient(victim, images))

    def score(self, images: Tensor) -> Tensor:
        """The detector's scores, [B] float64."""
        return self._estimated(images) if self.estimated else self.victim.score(images)

    def both(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The classifier's logits and the detector's scores."""
        return (self.victim.logits(images), self._estimated(images)) if self.estimated else self.victim.both(images)

    def _estimated(self, images: Tensor) -> Tensor:
        """The scores, with the estimate for their gradient: the backward pass is that of a linear stand-in."""
        with torch.no_grad():
            scores = self.victim.score(images.detach())
            slopes = estimate(self.victim.score, images.detach(), self.rngs, pairs=self.queries // 2, reach=self.reach)
        line = (images.double() * slopes).flatten(1).sum(1)
        return scores + (line - line.detach())


def without_gradient(victim: Victim, images: Tensor) -> bool:
    """Must the gradient of the detector's score be estimated, for images of this shape?"""
    noise = torch.rand(PROBES, *images.shape[1:], generator=torch.Generator().manual_seed(0)).to(images)
    return not has_gradient(victim.score, noise)


def has_gradient(score: Callable[[Tensor], Tensor], images: Tensor) -> bool:
    """Do these scores pass a finite gradient back to the images? All zeros count where the scores are equal, too."""
    with with_gradients():
        given = images.detach().clone().requires_grad_()
        try:
            scores = score(given)
            (found,) = torch.autograd.grad(scores.sum(), given)
        except Exception:  # whatever a detector raises that is not made for gradients; without them it has its say
            return False
    return bool(found.isfinite().all() and (found.any() or scores.min() == scores.max()))


def estimate(
    score: Callable[[Tensor], Tensor], images: Tensor, rngs: Sequence[torch.Generator], *, pairs: int, reach: float
) -> Tensor:
    """The gradient of every image's score, from natural evolution strategies (Ilyas et al. 2018, algorithm 1), float64.

    g = Σ (f(x + σu) − f(x − σu))·u / 2σn over n Gaussian directions u, drawn from the image's own generator. For a
    linear or quadratic f it is unbiased. Queries are clamped to [0, 1], where pixels are; at the faces that makes the
    pixel's part smaller, and leaves its sign.
    """
    total = torch.zeros_like(images, dtype=torch.float64)
    for _ in range(pairs):
        ways = torch.stack([torch.randn(images.shape[1:], generator=rng) for rng in rngs]).to(images)
        ahead, behind = score((images + reach * ways).clamp(0, 1)), score((images - reach * ways).clamp(0, 1))
        total += (ahead - behind)[:, None, None, None] * ways
    return total / (2 * reach * pairs)
