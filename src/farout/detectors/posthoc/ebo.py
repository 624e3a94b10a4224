"""`ebo`: energy of the logits."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from farout.checks import check_positive
from farout.core import Activations, PostHoc
from farout.detectors.catalog import register


@register
@dataclass(kw_only=True)
class EBO(PostHoc):
    """Energy (Liu et al. 2020, eq. 4): score = −T·logsumexp(l / T)."""

    name = "ebo"
    temperature: float = 1.0
    """T, by which logits are divided."""

    def __post_init__(self) -> None:
        check_positive("temperature", self.temperature)

    def score(self, activations: Activations) -> Tensor:
        return -self.temperature * (activations.logits.double() / self.temperature).logsumexp(1)
