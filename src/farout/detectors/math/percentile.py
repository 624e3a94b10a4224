"""Percentile of many values, exact."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def percentile_of(values: Tensor, percentile: float) -> Tensor:
    """Return the percentile as numpy defines it; numpy's float32 indices are wrong beyond 2²⁴ values."""
    supported = values.dtype in (torch.float32, torch.float64)
    flat = (values if supported else values.float()).detach().cpu().flatten().numpy()  # numpy has no bfloat16
    place = (len(flat) - 1) * percentile / 100
    low, high = int(np.floor(place)), int(np.ceil(place))
    ordered = np.partition(flat, [low, high])
    below, above = float(ordered[low]), float(ordered[high])
    return values.new_tensor(below + (place - low) * (above - below), dtype=torch.float64)
