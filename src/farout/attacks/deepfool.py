"""`deepfool`: the nearest boundary between classes, step by step (Moosavi-Dezfooli et al. 2016)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from farout.attacks.attack import Attack
from farout.attacks.catalog import ATTACKS
from farout.attacks.gradients import checked, fooled, gradient
from farout.attacks.victim import Victim
from farout.checks import check_count
from farout.networks.passes import with_gradients

LEAST = 1e-4
"""Added to the length of every step, as in the authors' code: where two logits tie, the distance is 0."""
FLAT = 1e-8
"""Gradients shorter than this count as this long: nothing is divided by 0."""


@ATTACKS.register("deepfool")
@dataclasses.dataclass(kw_only=True)
class DeepFool(Attack):
    """Small changes in l_2 (Algorithm 2): at each step to the nearest boundary, as if the classifier were affine.

    With f_k = l_k − l_y and w_k = ∇ₓ f_k, the step is |f_k| / ‖w_k‖² · w_k for the k that makes it shortest. The image
    is x plus all steps times 1 + overshoot, clipped to [0, 1]. The norm has no bound. An image is left alone as soon as
    the classifier errs, so one that was wrong from the start stays as it was.
    """

    name = "deepfool"
    steps: int = 50
    candidates: int = 10
    """Only so many classes are looked at: the image's own, and those of its next highest logits before."""
    overshoot: float = 0.02

    def __post_init__(self) -> None:
        check_count("steps", self.steps)
        check_count("candidates", self.candidates, least=2)
        if not 0 <= self.overshoot < math.inf:
            raise ValueError(f"overshoot must be at least 0 and finite, got {self.overshoot}")

    def run(self, victim: Victim, images: Tensor, labels: Tensor, rngs: Sequence[torch.Generator]) -> Tensor:
        labels = checked(victim, images, labels, rngs)
        with with_gradients():
            return self._run(victim, images.detach().clone(), labels)

    def _run(self, victim: Victim, found: Tensor, labels: Tensor) -> Tensor:
        """Changes the images in place; `left` are the places of those that the classifier still gets right."""
        left = torch.arange(len(found), device=found.device)
        given, total = found.clone(), torch.zeros_like(found)
        others = torch.empty(0)
        for step in range(self.steps):
            images = found[left].requires_grad_()
            logits = victim.logits(images)
            if step == 0:
                count = min(self.candidates, logits.shape[1]) - 1
                others = logits.detach().scatter(1, labels[:, None], -torch.inf).topk(count).indices
            right = ~fooled(logits, labels[left])
            if not right.all():
                left = left[right]
                if not len(left):
                    break
                # Cheaper than to take those that are done through a backward pass for every class.
                images = found[left].requires_grad_()
                logits = victim.logits(images)
            total[left] += _to_nearest(logits, images, labels[left], others[left])
            found[left] = (given[left] + (1 + self.overshoot) * total[left]).clamp_(0, 1)
        return found

    def passes(self, classes: int) -> int:
        return 2 * self.steps


def _to_nearest(logits: Tensor, images: Tensor, labels: Tensor, others: Tensor) -> Tensor:
    """The step to the nearest of the boundaries between the label [B] and the other classes [B, K]."""
    gaps = logits.gather(1, others) - logits.gather(1, labels[:, None])
    nearest = torch.full_like(gaps[:, 0], torch.inf).detach()
    step = torch.zeros_like(images)
    last = gaps.shape[1] - 1
    for k in range(last + 1):
        slope = gradient(gaps[:, k], images, keep=k < last)
        norm = slope.flatten(1).norm(dim=1).clamp_min_(FLAT)
        distance = gaps[:, k].detach().abs() / norm
        nearer = distance < nearest
        nearest = torch.where(nearer, distance, nearest)
        slope.mul_(((distance + LEAST) / norm)[:, None, None, None])
        step = torch.where(nearer[:, None, None, None], slope, step)
    return step.detach()
