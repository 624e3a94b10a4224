"""Objective of a search: the detector's score of decoded latents."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.scores import finite
from farout.search.search import Score
from farout.tensors import CHUNK, chunks

if TYPE_CHECKING:
    from farout.variations.variation import Variation

Judge = Callable[[Tensor], NDArray[np.float64]]
"""Scoring function: a detector's raw scores of decoded data, [B] float64."""


def objective(variation: Variation, base: Any, judge: Judge, name: str) -> Score:
    """Return the score function of latents, one latent per base; they are decoded and scored in chunks.

    name: name of the detector, for errors about non-finite scores.
    """

    def score(z: Tensor) -> Tensor:
        scored = [judge(decode_part(variation, z[part], base, part)) for part in chunks(len(z), CHUNK)]
        scores = finite(np.concatenate(scored), name, f"data decoded by {variation.name}")
        return torch.from_numpy(scores).to(z.device)

    return torch.no_grad()(score)


def decode_part(variation: Variation, z: Tensor, base: Any, part: slice) -> Tensor:
    """Decode latents with their part of the bases; raise unless that gives one row per latent."""
    data = variation.decode(z, base[part] if variation.conditional else None)
    if not isinstance(data, Tensor):
        raise TypeError(f"{variation.name}.decode must return a tensor, got {type(data).__name__}")
    if len(data) != len(z):
        raise ValueError(f"{variation.name}.decode returned {len(data)} rows for {len(z)} latents, expected one each")
    return data


def spread(scores: NDArray[np.float64], name: str) -> float:
    """Return the standard deviation of inlier scores; raise if they are not finite or all equal."""
    values = finite(scores, name, "the inliers")
    if len(values) < 2:
        raise ValueError(f"a search is standardized by the scores of 2 or more inliers, got {len(values)}")
    if values.min() == values.max():
        raise ValueError(
            f"{name} gives all {len(values)} inliers the score {values[0]:g}, so there is no scale to search on; give "
            "more inliers, or check the detector with farout.check"
        )
    return float(values.std())
