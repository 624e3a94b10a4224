"""Mutual information of an ensemble's prediction and its weights, as a loss: "The Raised Bar", eq. 2."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def mutual_information(logits: Tensor) -> Tensor:
    """Return H(mean of p_t) − mean of H(p_t) of every image in nats, [N], from the members' logits [N, T, C].

    It is computed as the mean of KL(p_t ‖ mean of p_t) in log space, which is stable for confident members and
    differentiable everywhere: ∂/∂a_tj = p_tj (log(p_tj / mean p_j) − KL_t) / T. It lies between 0 (all members agree)
    and ln min(T, C), and its gradient vanishes where all members agree.
    """
    if logits.ndim != 3:
        raise ValueError(f"expected the members' logits [N, T, C], got shape {list(logits.shape)}")
    logits = logits if logits.dtype == torch.float64 else logits.float()
    log_p = logits.log_softmax(2)
    log_mean = log_p.logsumexp(1, keepdim=True) - math.log(logits.shape[1])
    return (log_p.exp() * (log_p - log_mean)).sum(2).mean(1)
