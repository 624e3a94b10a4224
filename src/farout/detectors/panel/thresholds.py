"""Thresholds and conformal p-values from validation scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from farout.core import NotFitted
from farout.scores import Scores


def check_validation(validation: Scores, what: str) -> None:
    """Raise if there are no inlier validation scores."""
    if not validation:
        raise NotFitted(f"{what} need inlier validation scores: call fit(train, val=...) first")


def threshold(scores: NDArray[np.float64], recall: float) -> float:
    """Return the smallest of the scores that at least `recall` of them do not exceed."""
    shares = np.arange(1, len(scores) + 1) / len(scores)
    return float(np.sort(scores)[np.searchsorted(shares, recall)])


def p_values(scores: NDArray[np.float64], validation: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (1 + #{validation scores >= s}) / (n + 1) for every score s (Vovk et al. 2005; Bates et al. 2023)."""
    below = np.searchsorted(np.sort(validation), scores, side="left")
    return np.asarray((1 + len(validation) - below) / (1 + len(validation)), dtype=np.float64)
