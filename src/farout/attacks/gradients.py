"""What the gradient attacks share: the loss they climb, its gradient, the ball they stay in, and what they refuse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from farout.attacks.victim import Victim
from farout.checks import check_choice

Climbed = Literal["cross_entropy", "odds"]
"""The loss to climb: the published one, in float32, or one that grows with it and never underflows."""


def odds(logits: Tensor, labels: Tensor) -> Tensor:
    """log((1 − p_y) / p_y) = logsumexp_{c≠y}(l_c) − l_y of the true label y, [B]; above 0 the label is lost.

    The cross-entropy is log(1 + exp(odds)): it grows with the odds, and its gradient is theirs times a positive number.
    So signs of gradients and comparisons are those of the cross-entropy, but where the classifier is sure, and float32
    rounds p_y to 1, the odds still know the way.
    """
    own = labels[:, None]
    return logits.scatter(1, own, -torch.inf).logsumexp(1) - logits.gather(1, own).squeeze(1)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """−log p_y of the true label y, [B]."""
    return F.cross_entropy(logits, labels, reduction="none")


LOSSES = {"cross_entropy": cross_entropy, "odds": odds}


def gradient(values: Tensor, images: Tensor, *, keep: bool = False) -> Tensor:
    """∂ Σ values / ∂ images, each image's own; keep: the graph serves for another gradient."""
    (found,) = torch.autograd.grad(values.sum(), images, retain_graph=keep)
    if not found.isfinite().all():
        raise ValueError(
            "the network's gradient with respect to its images holds NaN or infinity; are its weights sound?"
        )
    return found


def fooled(logits: Tensor, labels: Tensor) -> Tensor:
    """Does the classifier say something else than the label? [B] bool."""
    return logits.argmax(1) != labels


def ball(images: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """The lowest and the highest value that each pixel may take: within epsilon of its own, and within [0, 1]."""
    return (images - epsilon).clamp_(0, 1), (images + epsilon).clamp_(0, 1)


def scattered(images: Tensor, low: Tensor, high: Tensor, epsilon: float, rngs: Sequence[torch.Generator]) -> Tensor:
    """The images plus uniform noise within epsilon, clamped; noise is drawn on the CPU, from each image's generator."""
    noise = torch.empty(images.shape)
    for own, rng in zip(noise, rngs, strict=True):
        own.uniform_(-epsilon, epsilon, generator=rng)
    return noise.to(images.device).add_(images).clamp_(low, high)


def climb(
    victim: Victim,
    loss: Climbed,
    start: Tensor,
    labels: Tensor,
    bounds: tuple[Tensor, Tensor],
    step: float,
    steps: int,
) -> Tensor:
    """Steps of the gradient's sign up the loss, clamped to the bounds (Madry et al. 2018, section 2.1), in place."""
    images = start.requires_grad_()
    for _ in range(steps):
        uphill = gradient(LOSSES[loss](victim.logits(images), labels), images).sign_()
        with torch.no_grad():
            images.add_(uphill, alpha=step).clamp_(*bounds)
    return images.detach()


def checked(victim: Victim, images: Tensor, labels: Tensor, rngs: Sequence[torch.Generator], least: int = 2) -> Tensor:
    """The labels as class numbers where the images are; an error where the network or the labels do not suit."""
    classes = victim.classifier.classes
    if classes < least:
        raise ValueError(f"this attack needs a network with at least {least} classes, got one with {classes}")
    if labels.shape != images.shape[:1] or len(rngs) != len(images):
        raise ValueError(
            f"expected a label and a generator for each of {len(images)} images, "
            f"got labels of shape {list(labels.shape)} and {len(rngs)} generators"
        )
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        raise ValueError(f"labels run from {labels.min()} to {labels.max()}, and the network has {classes} classes")
    with torch.inference_mode(False):  # what was made in inference_mode cannot be part of a graph
        return labels.to(images.device, torch.int64, copy=True)


def as_epsilon(epsilon: float | str | None) -> float | None:
    """The bound as a number from 0 to 1, which study files may write as "8/255"; None leaves it to the image's size."""
    if epsilon is None:
        return None
    try:
        found = float(Fraction(epsilon)) if isinstance(epsilon, str) else float(epsilon)
    except (TypeError, ValueError, ZeroDivisionError):
        found = math.nan
    if not 0 <= found <= 1:
        meant = f"; did you mean {epsilon}/255?" if 1 < found <= 255 else ""
        raise ValueError(f"epsilon must be a number from 0 to 1, as pixels are, or None, got {epsilon!r}{meant}")
    return found


def check_loss(loss: str) -> None:
    """The loss is one of two."""
    check_choice("loss", loss, tuple(LOSSES))
