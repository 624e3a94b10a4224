"""Shared pieces of the gradient attacks: losses, gradients, the l_inf ball, signed ascent, and input checks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from farout.attacks.target import Target
from farout.checks import check_choice
from farout.devices import is_host, to_device

LossName = Literal["cross_entropy", "odds"]
"""Loss to ascend: the published one, in float32, or a monotone function of it that never underflows."""


def odds(logits: Tensor, labels: Tensor) -> Tensor:
    """Return log((1 − p_y) / p_y) = logsumexp_{c≠y}(l_c) − l_y of the true label y, [B]; above 0, p_y < 1/2.

    The cross-entropy is log(1 + exp(odds)): it grows with the odds, and its gradient is theirs times a positive factor.
    So signs of gradients and comparisons equal those of the cross-entropy. For a confident prediction float32 rounds
    p_y to 1 and the gradient of the cross-entropy to 0; that of the odds stays exact.
    """
    own = labels[:, None]
    return logits.scatter(1, own, -torch.inf).logsumexp(1) - logits.gather(1, own).squeeze(1)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return −log p_y of the true label y, [B]."""
    return F.cross_entropy(logits, labels, reduction="none")


LOSSES = {"cross_entropy": cross_entropy, "odds": odds}


class Watch:
    """Check that gradients are finite. On a GPU it is read once, after the loop, so that no step waits for the GPU."""

    def __init__(self) -> None:
        self._finite: Tensor | None = None

    def see(self, gradients: Tensor) -> None:
        """Note whether these gradients are finite; on the CPU raise at once if they are not."""
        finite = gradients.isfinite().all()
        self._finite = finite if self._finite is None else self._finite & finite
        if is_host(gradients.device):
            self.read()

    def read(self) -> None:
        """Raise if any gradient so far was not finite."""
        if self._finite is not None and not self._finite:
            raise ValueError(
                "the network's gradient with respect to its images holds NaN or infinity; check its weights for NaN"
            )


def gradient(values: Tensor, images: Tensor, watch: Watch | None = None, *, keep: bool = False) -> Tensor:
    """Return ∂ Σ values / ∂ images, per image. Raise if it is not finite.

    watch: the check of a loop, which reads it at its end. keep: retain the graph for another gradient.
    """
    (gradients,) = torch.autograd.grad(values.sum(), images, retain_graph=keep)
    own = watch or Watch()
    own.see(gradients)
    if watch is None:
        own.read()
    return gradients


def misclassified(logits: Tensor, labels: Tensor) -> Tensor:
    """Return True where the prediction differs from the label, [B] bool."""
    return logits.argmax(1) != labels


def ball(images: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Return the lowest and highest allowed value of each pixel: within epsilon of the image, and within [0, 1]."""
    return (images - epsilon).clamp_(0, 1), (images + epsilon).clamp_(0, 1)


def add_uniform_noise(
    images: Tensor, low: Tensor, high: Tensor, epsilon: float, rngs: Sequence[torch.Generator]
) -> Tensor:
    """Return the images plus uniform noise within epsilon, clamped; drawn on the CPU from each image's generator."""
    noise = torch.empty(images.shape)
    for own, rng in zip(noise, rngs, strict=True):
        own.uniform_(-epsilon, epsilon, generator=rng)
    return to_device(noise, images.device).add_(images).clamp_(low, high)


def sign_ascent(
    target: Target,
    loss: LossName,
    start: Tensor,
    labels: Tensor,
    bounds: tuple[Tensor, Tensor],
    step: float,
    steps: int,
) -> Tensor:
    """Ascend the loss in place by signed gradient steps, clamped to the bounds (Madry et al. 2018, section 2.1)."""
    images, watch = start.requires_grad_(), Watch()
    for _ in range(steps):
        direction = gradient(LOSSES[loss](target.logits(images), labels), images, watch).sign_()
        with torch.no_grad():
            images.add_(direction, alpha=step).clamp_(*bounds)
    watch.read()
    return images.detach()


def check_labels(
    target: Target, images: Tensor, labels: Tensor, rngs: Sequence[torch.Generator], least: int = 2
) -> Tensor:
    """Return the labels as int64 on the images' device; raise if the network, labels or generators do not fit."""
    classes = target.classifier.classes
    if classes < least:
        raise ValueError(f"this attack needs a network with at least {least} classes, got one with {classes}")
    if labels.shape != images.shape[:1] or len(rngs) != len(images):
        raise ValueError(
            f"expected a label and a generator for each of {len(images)} images, "
            f"got labels of shape {list(labels.shape)} and {len(rngs)} generators"
        )
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        raise ValueError(
            f"labels run from {labels.min()} to {labels.max()}, the network has {classes} classes (0 to {classes - 1})"
        )
    with torch.inference_mode(False):  # inference tensors cannot be part of a graph
        return labels.to(images.device, torch.int64, copy=True)


def as_epsilon(epsilon: float | str | None) -> float | None:
    """Parse a bound from 0 to 1; study files may write "8/255". None: depends on the image size."""
    if epsilon is None:
        return None
    try:
        bound = float(Fraction(epsilon)) if isinstance(epsilon, str) else float(epsilon)
    except (TypeError, ValueError, ZeroDivisionError):
        bound = math.nan
    if not 0 <= bound <= 1:
        meant = f"; did you mean {epsilon}/255?" if 1 < bound <= 255 else ""
        raise ValueError(f"epsilon must be a number from 0 to 1 (pixels are in [0, 1]) or None, got {epsilon!r}{meant}")
    return bound


def check_loss(loss: str) -> None:
    """Raise unless the loss is one of `LOSSES`."""
    check_choice("loss", loss, tuple(LOSSES))
