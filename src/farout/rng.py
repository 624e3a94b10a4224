"""Random generators derived from a seed and a path; no global generator is read or changed."""

from __future__ import annotations

import hashlib
import operator

import numpy as np
import torch
from numpy.typing import NDArray


def seed_of(seed: int, *path: str | int) -> int:
    """Return a 63-bit seed that depends only on `seed` and on every step of `path`.

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
    """Return the torch generator of this seed and path."""
    return torch.Generator(device=device).manual_seed(seed_of(seed, *path))


def numpy_generator(seed: int, *path: str | int) -> np.random.Generator:
    """Return the numpy generator of this seed and path."""
    return np.random.default_rng(seed_of(seed, *path))


def subset_indices(total: int, count: int) -> NDArray[np.int64]:
    """Return at most `count` random indices below `total`, sorted, drawn with a fixed seed."""
    if total <= count:
        return np.arange(total)
    return np.sort(numpy_generator(0, "some", count).permutation(total)[:count])


def balanced_indices(labels: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return at most `count` random indices, balanced over the labels, sorted, drawn with a fixed seed."""
    order = numpy_generator(0, "balanced", count).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    _, starts, counts = np.unique(labels[order], return_index=True, return_counts=True)
    rank = np.arange(len(labels)) - np.repeat(starts, counts)
    return np.sort(order[np.argsort(rank, kind="stable")[:count]])
