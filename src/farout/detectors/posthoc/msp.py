"""`msp`: maximum softmax probability."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from farout.core import Activations, PostHoc
from farout.detectors.catalog import register
from farout.detectors.math.softmax import tail


@register
@dataclass(kw_only=True)
class MSP(PostHoc):
    """Maximum softmax probability (Hendrycks and Gimpel 2017): score = 1 − max p."""

    name = "msp"

    def score(self, activations: Activations) -> Tensor:
        rest, _ = tail(activations.logits)
        return rest / (1 + rest)
