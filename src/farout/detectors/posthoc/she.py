"""`she`: simplified Hopfield energy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from farout.core import Activations, PostHoc, Split
from farout.detectors.catalog import register
from farout.detectors.checks import check_classes, check_finite


@register
@dataclass(kw_only=True)
class SHE(PostHoc):
    """Simplified Hopfield energy (Zhang et al. 2023, eq. 9): score = −f·μ_ŷ.

    μ_k is the mean f of the training images of class k that the network classifies correctly; if there are none, of
    all images of class k; and zero for a class without training images. OpenOOD computes the same if every class has a
    correct image, and NaN otherwise.
    """

    name = "she"
    needs: ClassVar[frozenset[str]] = frozenset({"logits", "features"})
    fits_on: ClassVar[Split | None] = "train"

    def check_fit(self, total: int, labeled: bool) -> None:
        if not labeled:
            raise ValueError("she needs the class of every training image: give a training set with labels")

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        self.check_fit(len(activations), labels is not None)
        check_finite(activations, self.name)
        assert labels is not None
        check_classes(labels, activations, self.name)
        correct, everything = _class_sums(activations, labels, activations.logits.shape[1])
        sums = torch.where(correct[:, -1:] > 0, correct, everything)
        self.state = {"means": sums[:, :-1] / sums[:, -1:].clamp(min=1)}
        return self

    def score(self, activations: Activations) -> Tensor:
        means = self.fitted("means")[activations.logits.argmax(1)]
        return -(activations.features.double() * means).sum(1)


def _class_sums(activations: Activations, labels: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return, per class, feature sums of correctly classified and of all images; the last column counts the images."""
    features = activations.features
    correct = features.new_zeros(count, features.shape[1] + 1, dtype=torch.float64)
    everything = correct.clone()
    for part, classes in zip(activations.chunks(), labels.split(1024), strict=True):
        rows = torch.cat([part.features.double(), correct.new_ones(len(part), 1)], 1)
        right = part.logits.argmax(1) == classes
        everything.index_add_(0, classes, rows)
        correct.index_add_(0, classes[right], rows[right])
    return correct, everything
