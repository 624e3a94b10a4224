"""`ensemble`: uncertainty of an ensemble of networks."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from farout.checks import check_choice
from farout.core import Activations, PostHoc
from farout.detectors.catalog import register
from farout.detectors.posthoc.entropy import Entropy

Kind = Literal["entropy", "mutual_information"]


@register
@dataclass(kw_only=True)
class Ensemble(PostHoc):
    """Uncertainty of an ensemble, from the softmax p_m of every member.

    kind "entropy": H(mean p), the predictive entropy (Lakshminarayanan et al. 2017). For a single network it is the
    entropy of its softmax, as `entropy` computes it.
    kind "mutual_information": H(mean p) − mean H(p) (Gal 2016), computed as the mean KL(p_m ‖ mean p), which is never
    negative and keeps its precision where members agree. It needs an ensemble.

    OpenOOD scores ensembles by the largest softmax of the mean logits.
    """

    name = "ensemble"
    needs: ClassVar[frozenset[str]] = frozenset({"logits", "members"})
    kind: Kind = "entropy"
    """Measure of uncertainty."""

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, ("entropy", "mutual_information"))

    def check_network(self, activations: Activations) -> None:
        if self.kind == "mutual_information":
            self._members(activations)

    def score(self, activations: Activations) -> Tensor:
        if self.kind == "mutual_information":
            return mutual_information(self._members(activations))
        if activations.members is not None:
            activations = dataclasses.replace(activations, logits=log_mean_softmax(activations.members))
        return Entropy().score(activations)

    def _members(self, activations: Activations) -> Tensor:
        if activations.members is None:
            raise ValueError(
                f"{self.name}: mutual_information compares the members of an ensemble, and this network has none; "
                'give an ensemble of networks, or use kind="entropy"'
            )
        return activations.members


def log_mean_softmax(members: Tensor) -> Tensor:
    """Return the logarithm of the members' mean softmax, from their logits [B, M, C]: [B, C] float64."""
    return members.double().log_softmax(2).logsumexp(1) - math.log(members.shape[1])


def mutual_information(members: Tensor) -> Tensor:
    """Return mean_m KL(p_m ‖ q) with q the mean of p_m, from the members' logits [B, M, C]: [B] float64.

    With u = log p_m − log q it is the mean Σ q·(u·e^u − e^u + 1), whose terms are not negative.
    """
    mean = log_mean_softmax(members)[:, None]
    ratios = (members.double().log_softmax(2) - mean).where(mean > -torch.inf, 0.0)
    gone = ratios == -torch.inf
    ratios = ratios.masked_fill(gone, 0.0)
    excess = (ratios * ratios.exp() - ratios.expm1()).clamp(min=0).masked_fill(gone, 1.0)
    return (mean.exp() * excess).sum(2).mean(1)
