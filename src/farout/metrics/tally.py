"""Counting of resampled scores, compiled: numpy counts one resample per call and holds the interpreter's lock."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from farout.compiling import compiled


@compiled
def tally(counts: NDArray[np.int64], bins: NDArray[np.int64], drawn: NDArray[np.int32]) -> None:
    """Add to the counts [R, K] of every resample the bins of the scores that it drew, by their indices [R, n]."""
    for resample in range(drawn.shape[0]):
        for k in range(drawn.shape[1]):
            counts[resample, bins[drawn[resample, k]]] += 1
