"""Seeds by path: every random draw in farout comes from here, and no global generator is touched."""

from __future__ import annotations

import hashlib
import operator

import numpy as np
import torch
from numpy.typing import NDArray


def seed_of(seed: int, *path: str | int) -> int:
    """A 63-bit seed that depends on `seed` and on every step of `path`, and on nothing else.

    Steps are hashed with their type and length, so ("a", "bc") and ("ab", "c"), or 1 and "1", differ; numpy's
    integers count as integers.
    """
    if not hasattr(seed, "__index__"):
        raise TypeError(f"a seed must be a whole number, got {seed!r}")
    steps = "".join(map(_step, (operator.index(seed), *path)))
    return int.from_bytes(hashlib.sha256(steps.encode()).digest()[:8], "big") >> 1


def _step(step: str | int) -> str:
    kind, text = ("str", str(step)) if isinstance(step, str) else ("int", str(operator.index(step)))
    return f"{kind}{len(text)}:{text}"


def generator(seed: int, *path: str | int, device: str | torch.device = "cpu") -> torch.Generator:
    """The torch generator that belongs to this seed and path."""
    return torch.Generator(device=device).manual_seed(seed_of(seed, *path))


def numpy_generator(seed: int, *path: str | int) -> np.random.Generator:
    """The numpy generator that belongs to this seed and path."""
    return np.random.default_rng(seed_of(seed, *path))


def some(total: int, count: int) -> NDArray[np.int64]:
    """At most `count` of the places below `total`, drawn with a fixed seed, in order."""
    if total <= count:
        return np.arange(total)
    return np.sort(numpy_generator(0, "some", count).permutation(total)[:count])


def balanced(labels: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """At most `count` places of these labels, as many of each label as can be, drawn with a fixed seed, in order."""
    order = numpy_generator(0, "balanced", count).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    _, starts, counts = np.unique(labels[order], return_index=True, return_counts=True)
    rank = np.arange(len(labels)) - np.repeat(starts, counts)
    return np.sort(order[np.argsort(rank, kind="stable")[:count]])
