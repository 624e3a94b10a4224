"""Correction of p-values for the number of comparisons (Holm 1979)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from farout.metrics.counts import FloatArray


def holm(p_values: ArrayLike) -> FloatArray:
    """Return Holm's adjusted p-values.

    If those below α are rejected, the probability of any false rejection is at most α, whatever their dependence. The
    k-th smallest of n is multiplied by n − k + 1, and none is smaller than one before it.
    """
    try:
        p = np.asarray(p_values, np.float64)
    except (TypeError, ValueError):
        p = np.empty((0, 0))
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"expected a list of p-values from 0 to 1, got {p_values!r}")
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return adjusted
