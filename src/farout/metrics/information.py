"""Mutual information of the predictions of an ensemble."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import kl_div

from farout.metrics.counts import FloatArray

_SUM = 1e-3  # largest deviation of a sum of probabilities from 1; float16 softmaxes reach about 5e-4


def mutual_information(probabilities: ArrayLike) -> FloatArray:
    """Return the mutual information [N] of prediction and member in nats, from softmax probabilities [M, N, C].

    H(mean p) − mean H(p) of the members' p (Mukhoti et al. 2022, eq. 2), computed as the mean KL(p_m ‖ mean p), which
    is never negative and keeps its precision where members agree. From 0 to the smaller of log M and log C; a
    probability of 0 is allowed. From logits, `farout.generators.information` computes it in log space.
    """
    members = _check(probabilities)
    divergences: FloatArray = kl_div(members, members.mean(0))
    total: FloatArray = divergences.sum(2).mean(0)
    return total


def _check(probabilities: ArrayLike) -> FloatArray:
    try:
        members = np.asarray(probabilities, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"probabilities cannot be read as an array [M, N, C] of numbers: {error}") from error
    if members.ndim != 3 or not members.shape[0] or not members.shape[2]:
        raise ValueError(
            f"probabilities have shape {members.shape}, expected [M, N, C]: members, images, classes; of a single "
            "network pass probabilities[None]"
        )
    if not np.isfinite(members).all() or (members < 0).any() or (np.abs(members.sum(2) - 1) > _SUM).any():
        raise ValueError("expected probabilities, at least 0 with a sum of 1 over classes; apply a softmax to logits")
    return members
