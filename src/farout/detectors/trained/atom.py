"""Adversarial training with informative outlier mining (Chen et al. 2021, "ATOM: Robustifying Out-of-Distribution
Detection Using Outlier Mining")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from farout.core import ImageSet
from farout.detectors.catalog import register
from farout.detectors.trained.background import BackgroundDetector, attack, background, background_loss
from farout.detectors.trained.detector import BY_PRESET, Preset, TrainingSets
from farout.identity import Json
from farout.networks.network import Network
from farout.rng import seed_of
from farout.tensors import chunks
from farout.training import Batch, Context, Recipe, Stage, Stream, Task
from farout.training.augment import augment, augmentations
from farout.training.exposure import OUTLIERS, ExposedClassifier

AT_ONCE = 256
"""Outliers that mining scores at a time."""


class MinedClassifier(ExposedClassifier):
    """Task of a classifier whose outliers are mined before every epoch; half of them are attacked (Algorithm 1).

    Mining scores outliers that are augmented as in training. The authors then train on these very images; here the
    mined outliers are augmented anew in every batch.
    """

    stages = (Stage(),)

    def __init__(
        self, network: Network, val: ImageSet, outliers: ImageSet, *, batch: int, pool: int, mined: float,
        quantile: float, epsilon: float, steps: int,
    ) -> None:  # fmt: skip
        super().__init__(network, val, outliers, batch=batch)
        self.outliers, self.batch = outliers, batch
        self.pool, self.fraction, self.quantile = min(pool, len(outliers)), mined, quantile
        self.epsilon, self.steps = epsilon, steps
        self.mined = torch.arange(len(outliers))
        """Indices of the outliers of this epoch."""

    @property
    def identity(self) -> Json:
        mining = [self.pool, self.fraction, self.quantile]
        return {"exposed": super().identity, "mining": mining, "attack": [self.epsilon, self.steps], "version": 1}

    @property
    def streams(self) -> Mapping[str, Stream]:
        return {OUTLIERS: Stream(self.outliers.subset(self.mined.numpy()), self.batch)}

    def start_epoch(self, context: Context) -> None:
        candidates = torch.randperm(len(self.outliers), generator=context.generator)[: self.pool]
        scores = self.background_probabilities(candidates, context)
        self.mined = candidates[window(scores, self.quantile, int(self.fraction * self.pool))]

    @torch.no_grad()
    def background_probabilities(self, indices: Tensor, context: Context) -> Tensor:
        """Return the probability of the background class of outliers, augmented, [N]."""
        changes, found = augmentations(context.recipe.augment), []
        with self.network.evaluating():
            for part in chunks(len(indices), AT_ONCE):
                images = self.outliers.batch(indices[part].numpy()).to(context.device)
                images = augment(images, changes, seed_of(context.seed, "mining", part.start))
                logits = self.network(images, needs=()).logits
                found.append(logits.double().softmax(1)[:, -1].cpu())
        return torch.cat(found)

    def select_outliers(self, batch: Batch, context: Context) -> Tensor:
        outliers = super().select_outliers(batch, context)
        clean, others = outliers.tensor_split(2)
        labels = background(self.network, others)
        attacked = attack(self.network, others, labels, self.epsilon, self.steps, context.generator)
        return torch.cat([clean, attacked])

    def outlier_loss(self, logits: Tensor) -> Tensor:
        return background_loss(self.network, logits)

    def state(self) -> dict[str, Tensor]:
        return {"mined": self.mined}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self.mined = state["mined"].cpu()


def window(scores: Tensor, quantile: float, count: int) -> Tensor:
    """Return the indices of `count` scores in ascending order, after leaving out this fraction of the lowest."""
    start = int(quantile * len(scores))
    return scores.argsort(stable=True)[start : start + max(count, 1)]


@register
@dataclass(kw_only=True, eq=False)
class ATOM(BackgroundDetector):
    """ATOM: probability of a background class, trained on outliers that are hard to tell from inliers.

    Before every epoch, outliers are ranked by this probability and those just above the lowest eighth are kept.
    """

    name = "atom"
    presets: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {
        "small": {"layers": 3, "width": 12, "steps": 3, "pool": 8_000, "ratio": 1},
        "full": {"layers": 16, "width": 24, "steps": 5, "pool": 400_000, "ratio": 2},
    }
    pool: int = BY_PRESET
    """Number of outliers that are scored before an epoch; at most all."""
    mined: float = 0.25
    """Fraction of the pool that is kept for the epoch."""
    quantile: float = 0.125
    """Fraction of the pool with the lowest probabilities that is left out."""
    ratio: int = BY_PRESET
    """Outliers per inlier in a batch; half of them are attacked."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.quantile >= 0 and self.mined > 0 and self.quantile + self.mined <= 1):
            raise ValueError(
                f"atom: quantile and mined are fractions of the pool, expected quantile >= 0, mined > 0 and a sum of "
                f"at most 1, got {self.quantile} and {self.mined}"
            )

    def recipe(self) -> Recipe:
        if self.preset == "full":
            return Recipe(
                epochs=100, batch=64, weight_decay=1e-4, schedule="milestones", milestones=(50, 75, 90), factor=0.1
            )
        return Recipe(epochs=5, batch=64, weight_decay=1e-4)

    def task(self, sets: TrainingSets) -> Task:
        assert sets.outliers is not None
        return MinedClassifier(
            self.network, sets.val, sets.outliers, batch=self.ratio * self.batch, pool=self.pool,
            mined=self.mined, quantile=self.quantile, epsilon=self.epsilon, steps=self.steps,
        )  # fmt: skip
