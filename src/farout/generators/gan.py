"""Generators that are trained against a discriminator: their base and their task."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from farout.checks import check_count, check_sizes
from farout.core import ImageSet, check_set
from farout.generators.adversarial import adversarial_loss
from farout.generators.generator import PLAIN, Generator
from farout.generators.objective import Objective
from farout.generators.task import GeneratorTask
from farout.generators.terms import Terms
from farout.identity import Json
from farout.networks.base import seeded
from farout.rng import seed_of
from farout.training import Batch, Context, Player, Recipe

SMALLEST = 16
"""Smallest side of images."""


class GanTask(GeneratorTask):
    """Training of a generator against a discriminator, with the terms of an objective.

    Subclasses may change the players, `generate` and `judge`. Modules work on `Generator.inputs`: padded, in [−1, 1].
    """

    reuses: ClassVar[bool] = False
    """True if the generator's step uses the images that the discriminator's step before it has generated, as the public
    code of DCGAN and Pix2Pix does; then players must have one step each, the discriminator first."""

    def __init__(self, generator: Gan, discriminator: nn.Module, objective: Objective) -> None:
        self.generator, self.objective = generator, objective
        self.modules = {"generator": generator.fitted, "discriminator": discriminator}
        self.adversarial = adversarial_loss(generator.loss)
        self.terms: Terms | None = None
        self._made: tuple[Tensor, Tensor | None] | None = None

    @property
    def identity(self) -> Json:
        return {"generator": self.generator.identity(), "objective": self.objective.identity}

    def players(self, stage: str) -> tuple[Player, ...]:
        """Return the discriminator, then the generator."""
        return Player("discriminator", ("discriminator",)), Player("generator", ("generator",))

    def to(self, device: torch.device) -> None:
        super().to(device)
        self.terms = None if self.objective.name == "plain" else Terms(self.objective, device)

    # Losses

    def loss(self, player: str, batch: Batch, context: Context) -> Tensor:
        return self.generator_loss(batch, context) if player == "generator" else self.discriminator_loss(batch, context)

    def discriminator_loss(self, batch: Batch, context: Context) -> Tensor:
        """Return the adversarial loss of the discriminator; real and generated images pass it separately."""
        generated, labels = self._generate_both(batch, context) if self.reuses else self.generate(batch, context)
        real = self.judge(self.generator.inputs(batch.images), batch.labels, batch)
        made = self.judge(generated.detach(), labels, batch)
        return self.adversarial.discriminator(real.float(), made.float())

    def _generate_both(self, batch: Batch, context: Context) -> tuple[Tensor, Tensor | None]:
        """Generate images for the steps of both players; with several passes per step, for this one only."""
        if context.recipe.accumulate > 1:
            return self.generate(batch, context)
        self.modules["generator"].requires_grad_(True)
        self._made = self.generate(batch, context)
        return self._made

    def generator_loss(self, batch: Batch, context: Context) -> Tensor:
        """Return the adversarial loss of the generator and the terms of the objective."""
        generated, labels = self._made or self.generate(batch, context)
        self._made = None
        loss = self.adversarial.generator(self.judge(generated, labels, batch).float())
        if self.terms is None:
            return loss
        pixels = self.generator.pixels(generated).clamp(0, 1)
        return loss + self.terms(pixels, batch.images, batch.labels, labels)

    def generate(self, batch: Batch, context: Context) -> tuple[Tensor, Tensor | None]:
        """Return as many generated images as real ones, in [−1, 1] at the module's side, and their labels or None."""
        z = self.generator.latents(len(batch.images), context.generator).to(context.device)
        images: Tensor = self.modules["generator"](z)
        return images, None

    def judge(self, images: Tensor, labels: Tensor | None, batch: Batch) -> Tensor:
        """Return the discriminator's logits of images in [−1, 1]."""
        logits: Tensor = self.modules["discriminator"](images)
        return logits


@dataclass(kw_only=True, eq=False)
class Gan(Generator):
    """Generator that is trained against a discriminator. Subclasses define `settings`, `build` and `discriminator`."""

    loss: str = "non_saturating"
    """Adversarial loss: "non_saturating", "saturating" or "hinge"."""
    task_type: ClassVar[type[GanTask]] = GanTask
    settings: ClassVar[Mapping[str, Any]]
    """Settings of the recipe that differ from those of `GAN_SETTINGS`."""

    def __post_init__(self) -> None:
        check_count(f"{self.name}: side", self.side)
        check_sizes(self.name, self.params)
        adversarial_loss(self.loss)
        if self.channels not in (1, 3) or self.module_side < SMALLEST:
            raise ValueError(
                f"expected 1 or 3 channels and a side above {SMALLEST // 2}, got {self.channels} and {self.side}"
            )

    @abstractmethod
    def discriminator(self) -> nn.Module:
        """Return the discriminator with new weights, drawn from torch's global generator."""

    def recipe(self, **changes: Any) -> Recipe:
        return Recipe(**{**GAN_SETTINGS, **self.settings}).changed(**changes)

    def task(self, train: ImageSet, objective: Objective = PLAIN, *, seed: int = 0) -> GanTask:
        self.check_images(train)
        if self.translates and objective.pairing != "random":
            raise ValueError(
                f"{self.name} changes images, which are compared with their originals; got "
                f'pairing={objective.pairing!r}, expected "random"'
            )
        with seeded(seed_of(seed, "generator", self.name)), torch.device("cpu"):
            generator, discriminator = self.build(), self.discriminator()
        return self.task_type(self.with_module(generator), discriminator, objective)

    def check_images(self, train: ImageSet) -> None:
        """Raise if it cannot be trained on these images."""
        check_set("the training images", train)
        expected = (self.channels, self.side, self.side)
        if tuple(train.shape) != expected:
            raise ValueError(
                f"{self.name} was created for images of shape {expected}, {train.name!r} has {tuple(train.shape)}; "
                "give the side and channels of the images"
            )


GAN_SETTINGS: Mapping[str, Any] = {
    "epochs": 100, "batch": 64, "optimizer": "adam", "lr": 2e-4, "betas": (0.5, 0.999), "weight_decay": 0.0,
    "schedule": "constant", "augment": "none",
}  # fmt: skip
"""Recipe of DCGAN's public example, with the 100 epochs of "The Raised Bar"."""
