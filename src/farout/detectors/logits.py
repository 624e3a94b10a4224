"""Detectors that read the logits alone. Below: l the logits, p = softmax(l), ŷ = argmax l."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from farout.core import Activations, PostHoc
from farout.detectors.catalog import register


def tail(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Σ_{c≠ŷ} e^{l_c−l_ŷ} [B], and the summands [B, C] with 0 at ŷ, in float64.

    1 − max p = tail / (1 + tail) keeps its digits where max p rounds to 1, so confident images do not tie.
    """
    gaps = logits.double() - logits.double().amax(1, keepdim=True)
    weights = gaps.exp().scatter(1, logits.argmax(1, keepdim=True), 0.0)
    return weights.sum(1), weights


@register
@dataclass(kw_only=True)
class MSP(PostHoc):
    """Maximum softmax probability (Hendrycks and Gimpel 2017): score = 1 − max p."""

    name: ClassVar[str] = "msp"

    def score(self, activations: Activations) -> Tensor:
        rest, _ = tail(activations.logits)
        return rest / (1 + rest)


@register
@dataclass(kw_only=True)
class Entropy(PostHoc):
    """Entropy of the softmax: score = −Σ p log p = log(1 + tail) − Σ_{c≠ŷ} p_c (l_c − l_ŷ)."""

    name: ClassVar[str] = "entropy"

    def score(self, activations: Activations) -> Tensor:
        rest, weights = tail(activations.logits)
        gaps = activations.logits.double() - activations.logits.double().amax(1, keepdim=True)
        gaps = gaps.where(weights > 0, 0.0)  # a logit of −∞ has no part in the entropy
        return rest.log1p() - (weights * gaps).sum(1) / (1 + rest)


@register
@dataclass(kw_only=True)
class MLS(PostHoc):
    """Maximum logit (Hendrycks et al. 2022): score = −max l."""

    name: ClassVar[str] = "mls"

    def score(self, activations: Activations) -> Tensor:
        return -activations.logits.double().amax(1)


@register
@dataclass(kw_only=True)
class EBO(PostHoc):
    """Energy (Liu et al. 2020, eq. 4): score = −T·logsumexp(l / T)."""

    name: ClassVar[str] = "ebo"
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature must be positive and finite, got {self.temperature}")

    def score(self, activations: Activations) -> Tensor:
        return -self.temperature * (activations.logits.double() / self.temperature).logsumexp(1)
