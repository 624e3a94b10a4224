"""What a search minimizes: the detector's score of what latents decode to."""

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
"""A detector's raw scores of decoded data, [B] float64."""


def objective(variation: Variation, base: Any, judge: Judge, who: str) -> Score:
    """The scores of latents, one per base; as many are decoded and scored at a time as images are elsewhere.

    who: the detector, for the error where a score is not finite.
    """

    def score(z: Tensor) -> Tensor:
        found = [judge(decoded(variation, z[part], base, part)) for part in chunks(len(z), CHUNK)]
        (scores,) = finite({who: np.concatenate(found)}, f"what {variation.name} decodes to").values()
        return torch.from_numpy(scores).to(z.device)

    return torch.no_grad()(score)


def decoded(variation: Variation, z: Tensor, base: Any, part: slice) -> Tensor:
    """What latents make of their part of the bases; an error where that is not a row for each."""
    data = variation.decode(z, base[part] if variation.conditional else None)
    if not isinstance(data, Tensor):
        raise TypeError(f"{variation.name}.decode must return a tensor, got {type(data).__name__}")
    if len(data) != len(z):
        raise ValueError(f"{variation.name}.decode made {len(data)} rows of {len(z)} latents, expected one each")
    return data


def spread(scores: NDArray[np.float64], who: str) -> float:
    """The standard deviation of inlier scores; an error where they are not finite or all the same."""
    (values,) = finite({who: scores}, "the inliers").values()
    if len(values) < 2:
        raise ValueError(f"a search is standardized by the scores of 2 or more inliers, got {len(values)}")
    if values.min() == values.max():
        raise ValueError(
            f"{who} gives all {len(values)} inliers the score {values[0]:g}, so there is no scale to search on; give "
            "more inliers, or check the detector with farout.check"
        )
    return float(values.std())
