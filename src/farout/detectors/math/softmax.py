"""Softmax functions that stay exact where the softmax saturates. l: logits, p = softmax(l), ŷ = argmax l."""

from __future__ import annotations

import torch
from torch import Tensor


def tail(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return Σ_{c≠ŷ} e^{l_c−l_ŷ} [B], and the terms [B, C] with 0 at ŷ, in float64.

    1 − max p = tail / (1 + tail) stays precise where max p rounds to 1, so confident images do not tie.
    """
    gaps = logits.double() - logits.double().amax(1, keepdim=True)
    weights = gaps.exp().scatter(1, logits.argmax(1, keepdim=True), 0.0)
    return weights.sum(1), weights


def log_odds(logits: Tensor) -> Tensor:
    """Return log((1 − max p) / max p) = logsumexp_{c≠ŷ}(l_c) − l_ŷ [B] in float64: the logarithm of the tail.

    It grows with the cross-entropy of ŷ and, unlike it and the tail, neither saturates nor underflows.
    """
    logits = logits.double()
    best = logits.argmax(1, keepdim=True)
    return logits.scatter(1, best, -torch.inf).logsumexp(1) - logits.gather(1, best).squeeze(1)
