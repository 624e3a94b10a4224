"""Stored results of `attributes`: which images are corrupted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from farout.study.results import Results, Row

CONDITIONS = ("clean", "corrupted")


def uncorrupted(results: Results, row: Row) -> NDArray[np.bool_]:
    """Return a mask of the images without corruption."""
    return np.asarray(results.attribute(row, "severity") == 0)
