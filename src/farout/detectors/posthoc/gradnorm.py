"""`gradnorm`: norm of the last layer's gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from farout.core import Activations, PostHoc
from farout.detectors.catalog import register

if TYPE_CHECKING:
    pass


@register
@dataclass(kw_only=True)
class GradNorm(PostHoc):
    """L1 norm of the last layer's gradient (Huang et al. 2021, eq. 5 and 6): score = −‖∂ Σ_c −log p_c / ∂W‖₁.

    In closed form −(Σ_c |C·p_c − 1|)·(Σ_d |f_d|), without a backward pass. The paper's loss, the cross-entropy with
    the uniform distribution, is 1/C of this one: a factor common to all images, so there is no variant.
    """

    name = "gradnorm"
    needs: ClassVar[frozenset[str]] = frozenset({"logits", "features"})

    def score(self, activations: Activations) -> Tensor:
        shares = activations.logits.double().softmax(1)
        by_logits = (shares.shape[1] * shares - 1).abs().sum(1)
        return -by_logits * activations.features.double().abs().sum(1)
