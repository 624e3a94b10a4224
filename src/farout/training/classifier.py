"""Classifiers: networks trained with cross entropy."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from farout.core import ImageSet
from farout.identity import Json
from farout.networks.accuracy import accuracy_and_largest_logit, check_labels
from farout.networks.ensemble import Ensemble
from farout.networks.network import Network
from farout.training.loop import Progress, fit
from farout.training.recipe import Recipe
from farout.training.task import Batch, Context, Stage, Task, diverged

LARGEST_LOGIT = 2.0**24
"""From here on float32 cannot represent differences of 1 between logits, so that probabilities are meaningless."""


@dataclasses.dataclass(frozen=True)
class History:
    """Losses and accuracies of a classifier's training, epoch by epoch."""

    losses: tuple[float, ...] = ()
    """Mean training loss."""
    accuracies: tuple[float, ...] = ()
    """Validation accuracy, from 0 to 1."""

    @property
    def best_epoch(self) -> int:
        """Index of the epoch with the highest validation accuracy; the last of equals."""
        return max(range(len(self.accuracies)), key=lambda epoch: (self.accuracies[epoch], epoch))

    @property
    def best_accuracy(self) -> float:
        """Validation accuracy of the weights that are kept."""
        return self.accuracies[self.best_epoch]


class Classifier(Task):
    """Task of a network trained with cross entropy; it keeps the epoch with the highest validation accuracy."""

    stages: tuple[Stage, ...] = (Stage(keep="max"),)
    figure = "validation accuracy"
    version: ClassVar[int] = 1
    """Bumped by hand when the same arguments give other weights."""

    def __init__(self, network: Network, val_set: ImageSet) -> None:
        if isinstance(network, Ensemble):
            raise TypeError(
                "expected a single network, got an ensemble: train its members one by one, each with its own seed"
            )
        check_labels(val_set, network.classes, "validation")
        self.network, self.val_set = network, val_set
        self.modules = {"network": network}

    @property
    def identity(self) -> Json:
        return {"name": "classifier", "version": self.version, "validation": self.val_set.fingerprint}

    def loss(self, player: str, batch: Batch, context: Context) -> Tensor:
        assert batch.labels is not None
        logits = self.network(batch.images, needs=()).logits
        return F.cross_entropy(logits, batch.labels, label_smoothing=context.recipe.label_smoothing)

    def validate(self, context: Context) -> float:
        figure, largest = accuracy_and_largest_logit(self.network, self.val_set)
        if not largest < LARGEST_LOGIT:  # also for NaN
            raise diverged(f"the largest logit of the validation images became {largest:g}", context.recipe.lr)
        return figure


def train(
    network: Network,
    train_set: ImageSet,
    val_set: ImageSet,
    *,
    device: str | torch.device | None = None,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
    **recipe: Any,
) -> History:
    """Train with cross entropy; the network ends in eval mode with the weights of its best epoch.

    The best epoch is the one with the highest validation accuracy, the last of equals.
    recipe: settings of `farout.training.Recipe`: epochs (or steps), and any other that differs from its default, such
        as lr, batch, momentum, weight_decay, schedule, augment or seed; or a `preset` by name ("raised_bar_mnist").
    checkpoint, progress: as in `farout.training.fit`.
    """
    task = Classifier(network, val_set)
    check_labels(train_set, network.classes, "training")
    (history,) = fit(
        task,
        train_set,
        Recipe.of(**recipe),
        device=device or network.device,
        checkpoint=checkpoint,
        progress=progress,
    )
    losses = tuple(loss for loss in history.losses["model"] if loss is not None)
    return History(losses, tuple(history.figures))
