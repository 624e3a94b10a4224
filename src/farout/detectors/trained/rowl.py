"""Robust open-world learning (Sehwag et al. 2019, "Analyzing the Robustness of Open-World Machine Learning"), as the
authors of ATOM train it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from farout.core import ImageSet
from farout.detectors.catalog import register
from farout.detectors.trained.background import BackgroundDetector, attack, background
from farout.detectors.trained.detector import TrainingSets
from farout.identity import Json
from farout.networks.network import Network
from farout.rng import generator
from farout.training import Batch, Context, Recipe, Stage, Task
from farout.training.exposure import ExposedClassifier


class OpenWorldClassifier(ExposedClassifier):
    """Task of a classifier with a background class, trained on all images and on all images attacked."""

    stages = (Stage(),)

    def __init__(
        self,
        network: Network,
        val: ImageSet,
        outliers: ImageSet,
        *,
        batch: int,
        epsilon: float,
        steps: int,
        fixed: bool,
    ) -> None:
        super().__init__(network, val, outliers, batch=batch)
        self.epsilon, self.steps, self.fixed = epsilon, steps, fixed

    @property
    def identity(self) -> Json:
        return {"exposed": super().identity, "attack": [self.epsilon, self.steps, self.fixed], "version": 1}

    def loss(self, player: str, batch: Batch, context: Context) -> Tensor:
        assert batch.labels is not None
        outliers = self.select_outliers(batch, context)
        images = torch.cat([batch.images, outliers])
        labels = torch.cat([batch.labels, background(self.network, outliers)])
        attacked = self.attacked(images, labels, context.generator)
        clean, perturbed = self.network(torch.cat([images, attacked]), needs=()).logits.tensor_split(2)
        return F.cross_entropy(clean, labels) + F.cross_entropy(perturbed, labels)

    def attacked(self, images: Tensor, labels: Tensor, rng: torch.Generator) -> Tensor:
        """Return the images after the attack; without `fixed` the images themselves."""
        return attack(self.network, images, labels, self.epsilon, self.steps, rng) if self.fixed else images


@register
@dataclass(kw_only=True, eq=False)
class ROWL(BackgroundDetector):
    """ROWL: probability of a background class, adversarially trained on inliers and a few fixed outliers.

    In the authors' code the attack never replaces the clean image, since it compares losses of opposite signs: their
    checkpoints are not adversarially trained. Here it does; fixed=False trains as they do. Inliers and outliers come in
    the proportion of their sets.
    """

    name = "rowl"
    count: int = 5_000
    """Number of outliers, drawn once; at most all."""
    fixed: bool = True
    """Attack images in training; False trains twice on the clean images, as the authors' code does."""

    def recipe(self) -> Recipe:
        if self.preset == "full":
            return Recipe(
                epochs=100, batch=128, weight_decay=1e-4, schedule="milestones", milestones=(50, 75, 90), factor=0.1
            )
        return Recipe(epochs=4, batch=64, weight_decay=1e-4)

    def task(self, sets: TrainingSets) -> Task:
        assert sets.outliers is not None
        order = torch.randperm(len(sets.outliers), generator=generator(0, "rowl"))[: self.count]
        outliers = sets.outliers.subset(order.numpy())
        batch = max(round(self.batch * len(outliers) / len(sets.train)), 1)
        return OpenWorldClassifier(
            self.network, sets.val, outliers, batch=batch, epsilon=self.epsilon, steps=self.steps, fixed=self.fixed
        )
