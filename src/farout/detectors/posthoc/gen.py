"""`gen`: generalized entropy of the softmax."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from farout.checks import check_count, check_positive
from farout.core import Activations, PostHoc
from farout.detectors.catalog import register
from farout.detectors.math.softmax import log_odds


@register
@dataclass(kw_only=True)
class GEN(PostHoc):
    """Generalized entropy of the `top` largest p (Liu et al. 2023, eq. 4): score = Σ p^γ (1 − p)^γ.

    Computed from log p and log(1 − p), the latter by the log-odds at ŷ, without clamping, so confident images do not
    tie. OpenOOD computes the same in float32.
    """

    name = "gen"
    gamma: float = 0.1
    """γ, the exponent."""
    top: int = 100
    """Number of largest p that are summed."""

    def __post_init__(self) -> None:
        check_positive("gamma", self.gamma)
        check_count("top", self.top)

    def score(self, activations: Activations) -> Tensor:
        shares, others = _log_shares(activations.logits)
        shares, order = shares.topk(min(self.top, shares.shape[1]), dim=1)
        return (self.gamma * (shares + others.gather(1, order))).exp().sum(1)


def _log_shares(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return log p and log(1 − p), [B, C] each."""
    shares = logits.double().log_softmax(1)
    best = logits.argmax(1, keepdim=True)
    others = (-shares.exp()).scatter(1, best, 0.0).log1p()
    return shares, others.scatter(1, best, F.logsigmoid(log_odds(logits))[:, None])
