"""Base of the detectors that shape the features and take the energy of the logits that follow."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from farout.core import Activations, PostHoc


class Shaping(PostHoc):
    """Base of the detectors that score by −logsumexp(W·shaped(f) + b)."""

    needs: ClassVar[frozenset[str]] = frozenset({"features", "head"})

    @abstractmethod
    def shaped(self, features: Tensor) -> Tensor:
        """Return the shaped features [B, D], in float64."""

    def score(self, activations: Activations) -> Tensor:
        head = activations.last_layer(self.name)
        return -head.logits(self.shaped(activations.features.double())).logsumexp(1)


def kept_count(features: Tensor, percentile: float, name: str) -> int:
    """Return the number of entries of a row above the percentile."""
    total = int(features.shape[1])
    count = total - round(total * percentile / 100)
    if count < 1:
        raise ValueError(f"{name}: percentile={percentile:g} keeps none of {total} features; lower it")
    return count


def sharpening(features: Tensor, rest: Tensor) -> Tensor:
    """Return exp(Σf / Σ kept f), [B, 1]; 1 if Σ kept f is 0."""
    ratio = features.sum(1, keepdim=True) / torch.where(rest == 0, 1.0, rest)
    return torch.where(rest == 0, 0.0, ratio).exp()
