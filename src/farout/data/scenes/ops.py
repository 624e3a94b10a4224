"""Elementary operations of the formulas: on tensors by torch, on single numbers by numba.

A function marked `formula` and built from these operations runs on tensors (with gradients, on any device) and also
compiles to a loop over pixels. Both give the same bits, since every operation here is exact in IEEE arithmetic. So a
formula must not use other functions, nor mix precisions: in pixel formulas constants are the float32 ones below.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from numba.extending import overload, register_jitable
from torch import Tensor

F = TypeVar("F", bound=Callable[..., Any])

Number: TypeAlias = Any
"""Tensor, or in compiled code a single number."""


def constant(value: float) -> Number:
    """Return a float32 constant for pixel formulas."""
    return np.float32(value)


ZERO, HALF, ONE, TWO = constant(0), constant(0.5), constant(1), constant(2)
TINY = constant(2**-20)
"""Lower bound of roots and divisors, so that values and gradients stay finite."""


def formula(function: F) -> F:
    """Register a function for use in compiled code; in Python it is unchanged."""
    register_jitable(forceinline=True, error_model="numpy")(function)
    return function


def sqrt(x: Tensor) -> Tensor:
    """Return the square root, computed in double precision: torch's float32 root may be wrong in the last bit."""
    return torch.sqrt(x.double()).to(x.dtype)


def floor(x: Tensor) -> Tensor:
    """Return the largest integer not above x."""
    return torch.floor(x)


def truncate(x: Tensor) -> Tensor:
    """Return x without its fraction, in float32; for loops over pixels, where `floor` is slow."""
    return torch.trunc(x)


def absolute(x: Tensor) -> Tensor:
    """Return |x|."""
    return torch.abs(x)


def minimum(a: Tensor, b: Tensor) -> Tensor:
    """Return the smaller value."""
    return torch.minimum(a, b)


def maximum(a: Tensor, b: Tensor) -> Tensor:
    """Return the larger value."""
    return torch.maximum(a, b)


def clamp_min(x: Tensor, low: Any) -> Tensor:
    """Return x, at least the number `low`."""
    return torch.clamp(x, min=float(low))


def clamp_max(x: Tensor, high: Any) -> Tensor:
    """Return x, at most the number `high`."""
    return torch.clamp(x, max=float(high))


def clamp_unit(x: Tensor) -> Tensor:
    """Return x clamped to 0..1."""
    return torch.clamp(x, 0.0, 1.0)


def where(condition: Tensor, a: Any, b: Any) -> Tensor:
    """Return a where the condition holds, else b."""
    return torch.where(condition, a, b)


def as_float32(x: Tensor) -> Tensor:
    """Return x in float32."""
    return x.float()


def entry(row: Tensor, place: int) -> Tensor:  # row: [B, T]
    """Return one entry of each image's table."""
    return row[:, place, None, None]


def gather(row: Tensor, place: Tensor) -> Tensor:  # row: [B, T], place: [B, H, W]
    """Return the entry at an index (rounded down) of each image's table."""
    return torch.gather(row, 1, place.long().flatten(1)).view(place.shape)


def support(row: Tensor, count: int, x: Tensor, y: Tensor) -> Tensor:  # row: [B, T], x: [B]
    """Return the maximum |x·px + y·py| over the points p; the table begins with all their x, then their y."""
    along = row[:, :count] * x[:, None] + row[:, count : 2 * count] * y[:, None]
    return along.abs().amax(1)


def _scalar(function: Callable[..., Any], form: Callable[..., Any]) -> None:
    """Register the form of an operation for single numbers."""
    overload(function, jit_options={"forceinline": True, "error_model": "numpy"})(form)


@formula
def _farthest(row: Any, count: int, x: float, y: float) -> float:
    largest = 0.0
    for place in range(count):
        largest = max(largest, abs(row[place] * x + row[place + count] * y))
    return largest


_scalar(sqrt, lambda x: lambda x: math.sqrt(x))
_scalar(floor, lambda x: lambda x: np.floor(x))
_scalar(truncate, lambda x: lambda x: np.float32(np.int32(x)))
_scalar(absolute, lambda x: lambda x: abs(x))
_scalar(minimum, lambda a, b: lambda a, b: a if a < b else b)
_scalar(maximum, lambda a, b: lambda a, b: a if a > b else b)
_scalar(clamp_min, lambda x, low: lambda x, low: x if x > low else low)
_scalar(clamp_max, lambda x, high: lambda x, high: x if x < high else high)
_scalar(clamp_unit, lambda x: lambda x: ZERO if x < ZERO else (ONE if x > ONE else x))
_scalar(where, lambda condition, a, b: lambda condition, a, b: a if condition else b)
_scalar(as_float32, lambda x: lambda x: np.float32(x))
_scalar(entry, lambda row, place: lambda row, place: row[place])
_scalar(gather, lambda row, place: lambda row, place: row[np.uint32(np.int32(place))])
_scalar(support, lambda row, count, x, y: lambda row, count, x, y: _farthest(row, count, x, y))
