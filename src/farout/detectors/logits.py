"""Detectors that read the logits alone. Below: l the logits, p = softmax(l), ŷ = argmax l."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from farout.core import Activations, PostHoc
from farout.detectors.catalog import register
from farout.detectors.checks import check_count, check_positive


def tail(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Σ_{c≠ŷ} e^{l_c−l_ŷ} [B], and the summands [B, C] with 0 at ŷ, in float64.

    1 − max p = tail / (1 + tail) keeps its digits where max p rounds to 1, so confident images do not tie.
    """
    gaps = logits.double() - logits.double().amax(1, keepdim=True)
    weights = gaps.exp().scatter(1, logits.argmax(1, keepdim=True), 0.0)
    return weights.sum(1), weights


def log_odds(logits: Tensor) -> Tensor:
    """log((1 − max p) / max p) = logsumexp_{c≠ŷ}(l_c) − l_ŷ [B] in float64: the logarithm of the tail.

    It grows with the cross-entropy of ŷ and, unlike it and the tail, neither saturates nor underflows.
    """
    logits = logits.double()
    best = logits.argmax(1, keepdim=True)
    return logits.scatter(1, best, -torch.inf).logsumexp(1) - logits.gather(1, best).squeeze(1)


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
    """T, by which logits are divided."""

    def __post_init__(self) -> None:
        check_positive("temperature", self.temperature)

    def score(self, activations: Activations) -> Tensor:
        return -self.temperature * (activations.logits.double() / self.temperature).logsumexp(1)


@register
@dataclass(kw_only=True)
class GEN(PostHoc):
    """Generalized entropy of the `top` largest p (Liu et al. 2023, eq. 4): score = Σ p^γ (1 − p)^γ.

    Summed from log p and log(1 − p), the latter by the log-odds at ŷ: nothing is clamped, so confident images do not
    tie. OpenOOD computes the same in float32.
    """

    name: ClassVar[str] = "gen"
    gamma: float = 0.1
    """γ, the exponent."""
    top: int = 100
    """How many of the largest p are summed."""

    def __post_init__(self) -> None:
        check_positive("gamma", self.gamma)
        check_count("top", self.top)

    def score(self, activations: Activations) -> Tensor:
        shares, others = _log_shares(activations.logits)
        shares, order = shares.topk(min(self.top, shares.shape[1]), dim=1)
        return (self.gamma * (shares + others.gather(1, order))).exp().sum(1)


def _log_shares(logits: Tensor) -> tuple[Tensor, Tensor]:
    """log p and log(1 − p), [B, C] each."""
    shares = logits.double().log_softmax(1)
    best = logits.argmax(1, keepdim=True)
    others = (-shares.exp()).scatter(1, best, 0.0).log1p()
    return shares, others.scatter(1, best, F.logsigmoid(log_odds(logits))[:, None])
