"""What a search minimizes: the detector's score of what latents decode to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.core import CHUNK, chunks, finite
from farout.search.search import Score

if TYPE_CHECKING:
    from farout.variations.variation import Variation

Judge = Callable[[Tensor], NDArray[np.float64]]
"""A detector's raw scores of decoded data, [B] float64."""


def objective(variation: Variation, base: Any, judge: Judge, who: str) -> Score:
    """The scores of latents, one per base; as many are decoded and scored at a time as images are elsewhere.

    who: the detector, for the error where a score is not finite.
    """

    def score(z: Tensor) -> Tensor:
        found = [judge(variation.decode(z[part], _rows(variation, base, part))) for part in chunks(len(z), CHUNK)]
        (scores,) = finite({who: np.concatenate(found)}, f"what {variation.name} decodes to").values()
        return torch.from_numpy(scores).to(z.device)

    return torch.no_grad()(score)


def _rows(variation: Variation, base: Any, part: slice) -> Any:
    return base[part] if variation.conditional else None


def spread(scores: NDArray[np.float64], who: str) -> float:
    """The standard deviation of inlier scores; an error where they are not finite or all the same."""
    (values,) = finite({who: scores}, "the inliers").values()
    if len(values) < 2 or values.min() == values.max():
        raise ValueError(
            f"{who} gives {len(values)} inliers the same score, so there is no scale to search on; give more inliers, "
            "or check the detector with farout.check"
        )
    return float(values.std())
