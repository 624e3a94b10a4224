"""Outlier exposure: classifiers that also learn to be undecided on outliers (Hendrycks et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from farout.core import ImageSet
from farout.identity import Json
from farout.networks.network import Network
from farout.training.classifier import Classifier
from farout.training.task import Batch, Context, Stream

OUTLIERS = "outliers"
"""Name of the stream of outliers."""


class ExposedClassifier(Classifier):
    """Task of a network trained with cross entropy, and with a second term on outliers.

    The loss is CE(inliers) + weight · mean over outliers of the cross entropy to the uniform distribution. Inliers and
    outliers form one batch, so that they share the statistics of batch norm, as in the authors' code. Subclasses
    change the outliers, their weight or their term of the loss.
    """

    figure = "validation accuracy"

    def __init__(
        self, network: Network, val_set: ImageSet, outliers: ImageSet | None, *, batch: int, weight: float = 1.0
    ) -> None:
        """outliers: None if `select_outliers` creates them. batch: number of outliers per batch of inliers."""
        super().__init__(network, val_set)
        self.weight = weight
        self._streams = {} if outliers is None else {OUTLIERS: Stream(outliers, batch)}

    @property
    def identity(self) -> Json:
        return {"classifier": super().identity, "exposure": 1, "weight": self.weight}

    @property
    def streams(self) -> Mapping[str, Stream]:
        return self._streams

    def loss(self, player: str, batch: Batch, context: Context) -> Tensor:
        assert batch.labels is not None
        outliers = self.select_outliers(batch, context)
        logits = self.network(torch.cat([batch.images, outliers]), needs=()).logits
        inside, outside = logits.split([len(batch.images), len(outliers)])
        loss = F.cross_entropy(inside, batch.labels, label_smoothing=context.recipe.label_smoothing)
        return loss + self.outlier_weight(context) * self.outlier_loss(outside)

    def select_outliers(self, batch: Batch, context: Context) -> Tensor:
        """Return the outliers of a step."""
        return batch.streams[OUTLIERS].images

    def outlier_weight(self, context: Context) -> float:
        """Return the weight of the loss on outliers."""
        return self.weight

    def outlier_loss(self, logits: Tensor) -> Tensor:
        """Return the mean loss on outliers with these logits."""
        return uniform_cross_entropy(logits)


def uniform_cross_entropy(logits: Tensor) -> Tensor:
    """Return the mean cross entropy of the softmax to the uniform distribution, −(1/C) Σ log p; at least ln C."""
    return -logits.log_softmax(1).mean()
