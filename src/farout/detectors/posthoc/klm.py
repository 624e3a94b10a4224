"""`klm`: KL matching, the softmax compared with the mean softmax of inliers of each predicted class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from farout.core import Activations, PostHoc, Split
from farout.detectors.catalog import register
from farout.detectors.checks import check_logits


@register
@dataclass(kw_only=True)
class KLM(PostHoc):
    """KL matching (Hendrycks et al. 2022): score = min_k KL(p ‖ d_k).

    d_k is the mean p of the inlier validation images predicted as class k, one-hot if there are none. Entries of d
    are at least the smallest normal float64, 2.2e-308, whose logarithm is −708: a share that is zero or underflows
    costs 708 times the p at that class. So the divergence is finite, and near a one-hot d_k it falls continuously to
    0 as p concentrates at k.

    OpenOOD computes the same in float32 without that floor: there a one-hot d_k is infinitely far from every p that is
    not one-hot itself.
    """

    name = "klm"
    fits_on: ClassVar[Split | None] = "val"

    FLOOR: ClassVar[float] = torch.finfo(torch.float64).tiny

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        check_logits(activations, self.name)
        count = activations.logits.shape[1]
        sums = activations.logits.new_zeros(count, count, dtype=torch.float64)
        members = sums.new_zeros(count)
        for part in activations.chunks():
            predicted = part.logits.argmax(1)
            sums.index_add_(0, predicted, part.logits.double().softmax(1))
            members += predicted.bincount(minlength=count)
        typical = torch.where(members[:, None] > 0, sums / members[:, None], torch.eye(count, device=sums.device))
        self.state = {"log_typical": typical.clamp(min=self.FLOOR).log()}
        return self

    def score(self, activations: Activations) -> Tensor:
        shares = activations.logits.double().softmax(1)
        closest = (shares @ self.fitted("log_typical").T).amax(1)
        negentropy = (shares * shares.clamp(min=self.FLOOR).log()).sum(1)
        return (negentropy - closest).clamp(min=0)
