"""Scores of detectors: their type, and checks of the values that a detector returns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from farout.user_code import defined_at

Scores = dict[str, NDArray[np.float64]]
"""Scores by detector, [N] each."""


class NonFiniteScores(ValueError):
    """A detector returned NaN or infinite scores."""


def as_scores(scores: Any, expected: int, name: str, by: Any = None) -> NDArray[np.float64]:
    """Return a detector's scores as float64 [expected]. Raise an error that names the detector for anything else.

    by: the detector or function that returned them; for a user's, the error names its line.
    """
    if isinstance(scores, Tensor):
        scores = scores.detach().cpu()
        scores = (scores.double() if scores.is_floating_point() else scores).numpy()
    array = np.asarray(scores)
    if array.shape != (expected,):
        raise ValueError(
            f"{name}{_location(by)} returned scores of shape {array.shape} for {expected} images, "
            f"expected ({expected},)"
        )
    if not (np.issubdtype(array.dtype, np.floating) or np.issubdtype(array.dtype, np.integer)):
        raise TypeError(f"{name}{_location(by)} returned {array.dtype} scores, expected real numbers")
    return np.array(array, dtype=np.float64)  # a view would keep all that the detector computed it from


def _location(by: Any) -> str:
    """Return the location of the user's code that scored."""
    return defined_at(by, "score" if hasattr(type(by), "score") else "")


def finite(scores: NDArray[np.float64], name: str, stress: str) -> NDArray[np.float64]:
    """Return the scores. Raise an error with the detector, the images and the number of NaN and infinite scores."""
    nan, infinite = int(np.isnan(scores).sum()), int(np.isinf(scores).sum())
    if nan or infinite:
        raise NonFiniteScores(f"{name} gave {nan} NaN and {infinite} infinite scores among {len(scores)} on {stress}")
    return scores
