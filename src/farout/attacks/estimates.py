"""Detector scores that always have a gradient: the detector's own, or an estimate from score differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from farout.attacks.target import Target
from farout.networks.passes import with_gradients

PROBES = 4
"""Number of noise images used to test whether a detector's scores have a gradient."""


@dataclass(frozen=True)
class DifferentiableTarget:
    """Target whose scores always pass gradients to the images.

    The gradient is estimated for a detector whose scores have no gradient (numpy, ONNX, a service), only zero gradients
    (it rounds its input), or that fails on images that require one. The decision does not depend on the images
    attacked.
    """

    target: Target
    rngs: Sequence[torch.Generator]
    """One random generator per image, on the CPU."""
    queries: int
    """Number of scores per estimate, not counting that of the image itself."""
    reach: float
    """Standard deviation of the noise per pixel in these queries."""
    estimated: bool
    """True if gradients are estimated."""

    @classmethod
    def of(
        cls, target: Target, images: Tensor, rngs: Sequence[torch.Generator], queries: int, reach: float
    ) -> DifferentiableTarget:
        """Build it for images of this shape; a few noise images decide whether gradients must be estimated."""
        return cls(target, rngs, queries, reach, needs_gradient_estimate(target, images))

    def score(self, images: Tensor) -> Tensor:
        """Return the detector's scores, [B] float64."""
        return self._estimated(images) if self.estimated else self.target.score(images)

    def logits_and_scores(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return the classifier's logits and the detector's scores."""
        return (
            (self.target.logits(images), self._estimated(images))
            if self.estimated
            else self.target.logits_and_scores(images)
        )

    def _estimated(self, images: Tensor) -> Tensor:
        """Return the scores with an estimated gradient: the backward pass is that of a linear function."""
        with torch.no_grad():
            scores = self.target.score(images.detach())
            slopes = estimate_gradient(
                self.target.score, images.detach(), self.rngs, pairs=self.queries // 2, reach=self.reach
            )
        line = (images.double() * slopes).flatten(1).sum(1)
        return scores + (line - line.detach())


def needs_gradient_estimate(target: Target, images: Tensor) -> bool:
    """Return True if the gradient of the detector's score must be estimated for images of this shape."""
    noise = torch.rand(PROBES, *images.shape[1:], generator=torch.Generator().manual_seed(0)).to(images)
    return not has_gradient(target.score, noise)


def has_gradient(score: Callable[[Tensor], Tensor], images: Tensor) -> bool:
    """Return True if the scores pass a finite gradient to the images; all zeros count only if all scores are equal."""
    with with_gradients():
        inputs = images.detach().clone().requires_grad_()
        try:
            scores = score(inputs)
            (gradient,) = torch.autograd.grad(scores.sum(), inputs)
        except Exception:  # a detector may raise anything on inputs that require gradients
            return False
    return bool(gradient.isfinite().all() and (gradient.any() or scores.min() == scores.max()))


def estimate_gradient(
    score: Callable[[Tensor], Tensor], images: Tensor, rngs: Sequence[torch.Generator], *, pairs: int, reach: float
) -> Tensor:
    """Estimate the gradient of every image's score by natural evolution strategies (Ilyas et al. 2018, algorithm 1).

    g = Σ (f(x + σu) − f(x − σu))·u / 2σn over n Gaussian directions u, drawn from the image's own generator;
    float64. For a linear or quadratic f it is unbiased. Queries are clamped to [0, 1]; at the faces this makes the
    pixel's component smaller and keeps its sign.
    """
    total = torch.zeros_like(images, dtype=torch.float64)
    for _ in range(pairs):
        directions = torch.stack([torch.randn(images.shape[1:], generator=rng) for rng in rngs]).to(images)
        above, below = (
            score((images + reach * directions).clamp(0, 1)),
            score((images - reach * directions).clamp(0, 1)),
        )
        total += (above - below)[:, None, None, None] * directions
    return total / (2 * reach * pairs)
