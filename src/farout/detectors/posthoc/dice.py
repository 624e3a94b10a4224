"""`dice`: directed sparsification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from farout.checks import check_percent
from farout.core import Activations, Head, PostHoc, Split
from farout.detectors.catalog import register
from farout.detectors.checks import check_finite
from farout.detectors.math.percentile import percentile_of


@register
@dataclass(kw_only=True)
class DICE(PostHoc):
    """Directed sparsification (Sun and Li 2022): score = −logsumexp((W∘M)·f + b).

    M is 1 where a weight contributes more than the `percentile` of all contributions, E[f]∘W with the mean over the
    training split, and 0 elsewhere. OpenOOD does the same.
    """

    name = "dice"
    needs: ClassVar[frozenset[str]] = frozenset({"features", "head"})
    fits_on: ClassVar[Split | None] = "train"
    percentile: float = 90.0
    """Percent of the contributions to the logits that are left out."""

    def __post_init__(self) -> None:
        check_percent("percentile", self.percentile)

    def check_network(self, activations: Activations) -> None:
        activations.last_layer(self.name).logits(activations.features)

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        check_finite(activations, self.name)
        self.check_network(activations[:1])
        weight, bias = activations.last_layer(self.name)
        mean = torch.stack([part.features.double().sum(0) for part in activations.chunks()]).sum(0) / len(activations)
        contributions = mean * weight.detach().double()
        kept = contributions > percentile_of(contributions, self.percentile)
        if not kept.any():
            raise ValueError(
                f"dice: percentile={self.percentile:g} keeps none of {kept.numel()} weights, as the greatest "
                "contributions are equal; lower it, or see whether the training features are all zero"
            )
        self.state = {"weight": weight.detach().double() * kept, "bias": bias.detach().double()}
        return self

    def score(self, activations: Activations) -> Tensor:
        return -Head(self.fitted("weight"), self.fitted("bias")).logits(activations.features).logsumexp(1)
