"""Objective of a search: the detector's score of decoded latents."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.devices import is_host
from farout.scores import NonFiniteScores, finite
from farout.search.search import Score
from farout.tensors import CHUNK, chunks

if TYPE_CHECKING:
    from farout.variations.variation import Variation

Judge = Callable[[Tensor], NDArray[np.float64] | Tensor]
"""Scoring function: a detector's raw scores of decoded data, [B] float64."""


class Objective:
    """Score function of latents, one latent per base; they are decoded and scored in chunks.

    Non-finite scores raise an error that names the detector; scores that a judge leaves on a GPU are checked by
    `check` only, so that no step of a search waits for the GPU.
    """

    def __init__(self, variation: Variation, base: Any, judge: Judge, name: str) -> None:
        self.variation, self.base, self.judge, self.name = variation, base, judge, name
        self._strange: Tensor | None = None

    @torch.no_grad()
    def __call__(self, z: Tensor) -> Tensor:
        parts = chunks(len(z), CHUNK)
        scored = [self.judge(decode_part(self.variation, z[part], self.base, part)) for part in parts]
        tensors = [part for part in scored if isinstance(part, Tensor)]
        if tensors and not is_host(tensors[0].device):
            scores = torch.cat(tensors)
            strange = (~scores.isfinite()).sum()
            self._strange = strange if self._strange is None else self._strange + strange
            return scores
        return torch.from_numpy(finite(np.concatenate(scored), self.name, self._data)).to(z.device)

    def check(self) -> None:
        """Raise if any score so far was not finite."""
        if self._strange is not None and (count := int(self._strange)):
            raise NonFiniteScores(f"{self.name} gave {count} NaN or infinite scores on {self._data}")

    @property
    def _data(self) -> str:
        return f"data decoded by {self.variation.name}"


def objective(variation: Variation, base: Any, judge: Judge, name: str) -> Score:
    """Return the score function of latents, see `Objective`."""
    return Objective(variation, base, judge, name)


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
