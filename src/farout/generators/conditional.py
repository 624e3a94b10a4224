"""Generators that may be conditional on a class: labels of training images, and of generated ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farout.core import ImageSet
from farout.generators.gan import Gan, GanTask
from farout.training import Batch, Context, Player


class ConditionalTask(GanTask):
    """Training of a conditional GAN: classes of generated images are uniform; both networks receive labels.

    Without classes, both receive None.
    """

    generator: ConditionalGan

    def discriminator_player(self, name: str = "discriminator", **settings: Any) -> Player:
        """Return a player that trains the discriminator, at its own learning rate. settings: fields of `Player`."""
        lr = self.generator.discriminator_lr
        changes = {**settings.pop("changes", {}), **({} if lr is None else {"lr": lr})}
        return Player(name, ("discriminator",), changes=changes, lr_factor=self.generator.lr_ratio, **settings)

    def inputs(self, count: int, context: Context) -> tuple[Tensor, Tensor | None]:
        """Return random latents and labels on the device."""
        z = self.generator.latents(count, context.generator).to(context.device)
        labels = self.generator.random_labels(count, context.generator)
        return z, None if labels is None else labels.to(context.device)

    def generate(self, batch: Batch, context: Context) -> tuple[Tensor, Tensor | None]:
        z, labels = self.inputs(len(batch.images), context)
        images: Tensor = self.modules["generator"](z, labels)
        return images, labels

    def judge(self, images: Tensor, labels: Tensor | None, batch: Batch) -> Tensor:
        logits: Tensor = self.modules["discriminator"](images, labels if self.generator.classes else None)
        return logits


@dataclass(kw_only=True, eq=False)
class ConditionalGan(Gan):
    """GAN that generates images of a class, if it has classes."""

    classes: int = 0
    """Number of classes of the training images; 0 for a model that is not conditional."""
    discriminator_lr: float | None = None
    """Learning rate of the discriminator; None: that of the recipe, which is the generator's, times `lr_ratio`."""

    @property
    def lr_ratio(self) -> float:
        """Learning rate of the discriminator as a multiple of the generator's, in the public settings."""
        return 1.0

    def random_labels(self, count: int, generator: torch.Generator) -> Tensor | None:
        """Return uniform labels [count]; None if it is not conditional."""
        return torch.randint(self.classes, (count,), generator=generator) if self.classes else None

    def check_images(self, train: ImageSet) -> None:
        super().check_images(train)
        if not self.classes:
            return
        if train.labels is None:
            raise ValueError(f"{self.name} has classes={self.classes}, {train.name!r} no labels; use classes=0")
        found = np.unique(np.asarray(train.labels))
        if not np.array_equal(found, np.arange(self.classes)):
            raise ValueError(
                f"{self.name} with classes={self.classes} needs images of every label from 0 to {self.classes - 1}, "
                f"{train.name!r} has {len(found)} labels from {found[0]} to {found[-1]}; set classes to their number"
            )
