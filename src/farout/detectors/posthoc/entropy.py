"""`entropy`: entropy of the softmax."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from farout.core import Activations, PostHoc
from farout.detectors.catalog import register
from farout.detectors.math.softmax import tail


@register
@dataclass(kw_only=True)
class Entropy(PostHoc):
    """Entropy of the softmax: score = −Σ p log p = log(1 + tail) − Σ_{c≠ŷ} p_c (l_c − l_ŷ)."""

    name = "entropy"

    def score(self, activations: Activations) -> Tensor:
        rest, weights = tail(activations.logits)
        gaps = activations.logits.double() - activations.logits.double().amax(1, keepdim=True)
        gaps = gaps.where(weights > 0, 0.0)  # a logit of −∞ adds nothing to the entropy
        return rest.log1p() - (weights * gaps).sum(1) / (1 + rest)
