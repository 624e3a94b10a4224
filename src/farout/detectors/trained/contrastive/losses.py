"""Contrastive losses on vectors of unit norm."""

from __future__ import annotations

import torch
from torch import Tensor


def contrastive_loss(vectors: Tensor, groups: Tensor, temperature: float) -> Tensor:
    """Return the supervised contrastive loss (Khosla et al. 2020, eq. 2), a mean over all rows.

    vectors: [N, D] of unit norm. groups: [N]; rows of the same group are each other's positives. With two views per
    image and the image's index as group it is NT-Xent (Chen et al. 2020, eq. 1).
    """
    if not groups.bincount().gt(1)[groups].all():
        raise ValueError("every row needs at least one positive: expected groups of two rows or more")
    similar = (vectors @ vectors.T / temperature).float()
    itself = torch.eye(len(vectors), dtype=torch.bool, device=vectors.device)
    log_softmax = similar.masked_fill(itself, -torch.inf).log_softmax(1)
    positives = (groups[:, None] == groups) & ~itself
    total = log_softmax.masked_fill(~positives, 0.0).sum(1)
    return -(total / positives.sum(1)).mean()
