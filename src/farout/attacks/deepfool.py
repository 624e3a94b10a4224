"""`deepfool`: steps to the nearest decision boundary (Moosavi-Dezfooli et al. 2016)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from farout.attacks.attack import Attack
from farout.attacks.catalog import ATTACKS
from farout.attacks.gradients import Watch, check_labels, gradient, misclassified
from farout.attacks.target import Target
from farout.checks import check_count
from farout.devices import is_host
from farout.networks.passes import with_gradients

LEAST = 1e-4
"""Added to the length of every step, as in the authors' code: the distance is 0 where two logits tie."""
FLAT = 1e-8
"""Smallest gradient norm that is divided by; avoids division by 0."""


@ATTACKS.register("deepfool")
@dataclasses.dataclass(kw_only=True)
class DeepFool(Attack):
    """Small perturbations in l_2 (Algorithm 2): each step goes to the nearest boundary of a linearized classifier.

    With f_k = l_k − l_y and w_k = ∇ₓ f_k, the step is |f_k| / ‖w_k‖² · w_k for the k that makes it shortest. The result
    is x plus 1 + overshoot times the sum of all steps, clipped to [0, 1]. The norm has no bound. An image stops
    changing once it is misclassified, so an image that is misclassified from the start stays unchanged.
    """

    name = "deepfool"
    steps: int = 50
    candidates: int = 10
    """Number of classes considered: the image's own, and those with the highest logits on the unperturbed image."""
    overshoot: float = 0.02

    def __post_init__(self) -> None:
        check_count("steps", self.steps)
        check_count("candidates", self.candidates, least=2)
        if not 0 <= self.overshoot < math.inf:
            raise ValueError(f"overshoot must be at least 0 and finite, got {self.overshoot}")

    def run(self, target: Target, images: Tensor, labels: Tensor, rngs: Sequence[torch.Generator]) -> Tensor:
        labels = check_labels(target, images, labels, rngs)
        with with_gradients():
            return self._run(target, images.detach().clone(), labels)

    def _run(self, target: Target, adversarial: Tensor, labels: Tensor) -> Tensor:
        """Perturb the images in place; `left` holds the rows of the images that are still classified correctly.

        On a GPU it holds all rows, and misclassified images take steps of length 0, since no step waits for the GPU.
        """
        left = torch.arange(len(adversarial), device=adversarial.device)
        watch, host = Watch(), is_host(adversarial.device)
        clean, total = adversarial.clone(), torch.zeros_like(adversarial)
        others = torch.empty(0)
        for step in range(self.steps):
            images = adversarial[left].requires_grad_()
            logits = target.logits(images)
            if step == 0:
                count = min(self.candidates, logits.shape[1]) - 1
                others = logits.detach().scatter(1, labels[:, None], -torch.inf).topk(count).indices
            right = ~misclassified(logits, labels[left])
            if host and not right.all():
                left = left[right]
                if not len(left):
                    break
                # A second forward pass is cheaper than backward passes, one per class, for the images that are done.
                images = adversarial[left].requires_grad_()
                logits = target.logits(images)
            move = _to_nearest(logits, images, labels[left], others[left], watch)
            total[left] += move if host else torch.where(right[:, None, None, None], move, 0.0)
            adversarial[left] = (clean[left] + (1 + self.overshoot) * total[left]).clamp_(0, 1)
        watch.read()
        return adversarial

    def passes(self, classes: int) -> int:
        return 2 * self.steps


def _to_nearest(logits: Tensor, images: Tensor, labels: Tensor, others: Tensor, watch: Watch) -> Tensor:
    """Return the step to the nearest boundary between the label's class [B] and the other classes [B, K]."""
    gaps = logits.gather(1, others) - logits.gather(1, labels[:, None])
    nearest = torch.full_like(gaps[:, 0], torch.inf).detach()
    step = torch.zeros_like(images)
    last = gaps.shape[1] - 1
    for k in range(last + 1):
        slope = gradient(gaps[:, k], images, watch, keep=k < last)
        norm = slope.flatten(1).norm(dim=1).clamp_min_(FLAT)
        distance = gaps[:, k].detach().abs() / norm
        nearer = distance < nearest
        nearest = torch.where(nearer, distance, nearest)
        slope.mul_(((distance + LEAST) / norm)[:, None, None, None])
        step = torch.where(nearer[:, None, None, None], slope, step)
    return step.detach()
