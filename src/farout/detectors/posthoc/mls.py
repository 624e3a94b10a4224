"""`mls`: maximum logit."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from farout.core import Activations, PostHoc
from farout.detectors.catalog import register


@register
@dataclass(kw_only=True)
class MLS(PostHoc):
    """Maximum logit (Hendrycks et al. 2022): score = −max l."""

    name = "mls"

    def score(self, activations: Activations) -> Tensor:
        return -activations.logits.double().amax(1)
