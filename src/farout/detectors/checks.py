"""Checks of detectors: their variant, the network they read, and the activations they are fitted on."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from farout.checks import check_choice
from farout.core import Activations, PostHoc

Variant = Literal["paper", "openood"]
"""Variant of a detector: the paper's definition, or the computation of OpenOOD (main of 2025-12-01)."""


def check_variant(variant: str) -> None:
    """A variant is one of two."""
    check_choice("variant", variant, ("paper", "openood"))


def check_classifier(detector: PostHoc, classes: int) -> None:
    """A network of so many classes has the logits that the detector reads."""
    if not classes and {"logits", "head"} & detector.needs:
        raise ValueError(
            f"{detector.name} reads logits, and this network gives features alone: its weights have no classifier, or "
            "one of other classes. Give it a network with a classifier (classes= as many as the weights know), or use "
            "detectors that read features: dn2, knn, mds"
        )


def check_suits(detector: PostHoc, activations: Activations) -> None:
    """The detector can read the network that gave these activations of a few images."""
    check_classifier(detector, activations.logits.shape[1])
    if "head" in detector.needs:
        activations.last_layer(detector.name)
    detector.check_network(activations)


def check_finite(activations: Activations, who: str) -> None:
    """The features to learn from are finite numbers."""
    for part in activations.chunks():
        if not part.features.isfinite().all():
            raise ValueError(f"{who}: the features to fit on hold NaN or infinity; are the network's weights sound?")


def check_logits(activations: Activations, who: str) -> None:
    """The logits to learn from make a softmax: no NaN, no +∞; −∞ masks a class, but not all."""
    for part in activations.chunks():
        if not part.logits.double().logsumexp(1).isfinite().all():
            raise ValueError(f"{who}: the logits to fit on hold NaN or infinity; are the network's weights sound?")


def check_classes(labels: Tensor, activations: Activations, who: str) -> None:
    """Every label is a class of the network, one that no logit of −∞ rules out."""
    count = activations.logits.shape[1]
    if labels.min() < 0 or labels.max() >= count:
        raise ValueError(f"{who}: labels run from {labels.min()} to {labels.max()}, the network has {count} classes")
    if (activations.logits.gather(1, labels[:, None]) == -torch.inf).any():
        raise ValueError(f"{who}: some images are of a class that the network rules out with a logit of −∞")
