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
    """Raise unless the variant is "paper" or "openood"."""
    check_choice("variant", variant, ("paper", "openood"))


def check_classifier(detector: PostHoc, classes: int) -> None:
    """Raise if the detector reads logits and the network has no classes."""
    if not classes and {"logits", "head"} & detector.needs:
        raise ValueError(
            f"{detector.name} reads logits, and this network has features only: its weights have no classifier, or "
            "one of other classes. Give it a network with a classifier (classes= as many as the weights know), or use "
            "detectors that read features: dn2, knn, mds"
        )


def check_suits(detector: PostHoc, activations: Activations) -> None:
    """Raise unless the detector can read the network that produced these activations of a few images."""
    check_classifier(detector, activations.logits.shape[1])
    if "head" in detector.needs:
        activations.last_layer(detector.name)
    detector.check_network(activations)


def check_finite(activations: Activations, name: str) -> None:
    """Raise unless the features to fit on are finite."""
    for part in activations.chunks():
        if not part.features.isfinite().all():
            raise ValueError(
                f"{name}: the features to fit on hold NaN or infinity; check the network's weights for NaN"
            )


def check_logits(activations: Activations, name: str) -> None:
    """Raise unless the logits to fit on have a softmax: no NaN, no +∞; −∞ masks a class, but not all classes."""
    for part in activations.chunks():
        if not part.logits.double().logsumexp(1).isfinite().all():
            raise ValueError(f"{name}: the logits to fit on hold NaN or infinity; check the network's weights for NaN")


def check_classes(labels: Tensor, activations: Activations, name: str) -> None:
    """Raise unless every label is a class of the network that is not masked by a logit of −∞."""
    count = activations.logits.shape[1]
    if labels.min() < 0 or labels.max() >= count:
        raise ValueError(f"{name}: labels run from {labels.min()} to {labels.max()}, the network has {count} classes")
    if (activations.logits.gather(1, labels[:, None]) == -torch.inf).any():
        raise ValueError(f"{name}: some labels are classes that the network masks with a logit of −∞")
