"""BigGAN as a generator: its settings, recipe and training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from farout.generators.biggan.layers import orthogonal_penalty
from farout.generators.biggan.networks import GENERATOR, DiscriminatorNetwork, GeneratorNetwork, Shape, initialize
from farout.generators.biggan.standing import BATCHES, SIZE, estimate_statistics
from farout.generators.conditional import ConditionalGan, ConditionalTask
from farout.generators.generator import GENERATORS
from farout.rng import generator as seeded_generator
from farout.training import Batch, Context, Player, Recipe

NORM_EPS = 1e-5


class BigGANTask(ConditionalTask):
    """Training of BigGAN: several steps of the discriminator, then one of the generator."""

    generator: BigGAN

    def players(self, stage: str) -> tuple[Player, ...]:
        """Return the discriminator, then the generator."""
        steps = self.generator.discriminator_steps
        assert steps is not None
        return self.discriminator_player(steps=steps), Player("generator", ("generator",))

    def discriminator_loss(self, batch: Batch, context: Context) -> Tensor:
        """Return the adversarial loss; real and generated images pass together: one power iteration per step."""
        generated, labels = self.generate(batch, context)
        real = self.generator.inputs(batch.images)
        both = None if labels is None or batch.labels is None else torch.cat([batch.labels, labels])
        logits = self.judge(torch.cat([real, generated]), both, batch).float()
        return self.adversarial.discriminator(*logits.split([len(real), len(generated)]))

    def generator_loss(self, batch: Batch, context: Context) -> Tensor:
        loss = super().generator_loss(batch, context)
        if not self.generator.orthogonal:
            return loss
        return loss + self.generator.orthogonal * orthogonal_penalty(self._orthogonal_weights())

    def _orthogonal_weights(self) -> Iterator[Tensor]:
        """Yield all weights with two or more axes, except the shared embedding."""
        for name, weight in self.modules["generator"].named_parameters():
            if weight.ndim > 1 and name != "embedding.weight":
                yield weight

    # Samples and the weights that are kept have standing statistics

    def validate(self, context: Context) -> float | None:
        if self.monitor is not None and self.monitor.features is not None:
            self._estimate_statistics()
        return super().validate(context)

    def end_epoch(self, context: Context) -> None:
        if self.monitor is not None and self.monitor.folder is not None:
            self._estimate_statistics()
        super().end_epoch(context)

    def weights(self) -> dict[str, Tensor]:
        self._estimate_statistics()
        return super().weights()

    def _estimate_statistics(self) -> None:
        estimate_statistics(self.modules["generator"], self._standing_inputs())

    def _standing_inputs(self) -> Iterator[tuple[Tensor, Tensor | None]]:
        device = next(self.modules["generator"].parameters()).device
        for number in range(BATCHES):
            draws = seeded_generator(0, "standing statistics", number)
            z, labels = self.generator.latents(SIZE, draws), self.generator.random_labels(SIZE, draws)
            yield z.to(device), None if labels is None else labels.to(device)


@GENERATORS.register("biggan")
@dataclass(kw_only=True, eq=False)
class BigGAN(ConditionalGan):
    """BigGAN (Brock et al. 2019), class-conditional, with the settings of the authors' scripts.

    Up to 32 px those of the CIFAR script, above those of the ImageNet one; settings that are None depend on the side.
    Samples use standing statistics: means over fixed random batches, estimated at the end of training.
    """

    name = "biggan"
    task_type = BigGANTask
    settings: ClassVar[Mapping[str, Any]] = {}
    loss: str = "hinge"
    classes: int = 10
    """Number of classes of the training images; 0 for images without labels."""
    width: int | None = None
    """Channels that all others are multiples of: 64 up to 32 px, 96 above."""
    dim: int = 0
    """Coordinates of the normal latent; 0 for the script's: 128 up to 32 px, above 20 for every block and the start."""
    shared: int | None = None
    """Size of the class embedding that all norms share, each with its own chunk of the latent; 0: embeddings of their
    own. 0 up to 32 px, 128 above."""
    attention: int | None = None
    """Resolution with self-attention in both networks; 0 for none. 0 up to 32 px, 64 above."""
    discriminator_steps: int | None = None
    """Steps of the discriminator per step of the generator: 4 up to 32 px, 1 above."""
    orthogonal: float = 0.0
    """Strength of the orthogonal penalty of the generator; 5e-5 gives the gradient of the authors' code with 1e-4."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.module_side not in GENERATOR:
            raise ValueError(f"expected a side up to {max(GENERATOR)}, got {self.side}")
        small, slots = self.small, len(GENERATOR[self.module_side])
        chosen = {
            "width": 64 if small else 96, "shared": 0 if small else 128, "attention": 0 if small else 64,
            "discriminator_steps": 4 if small else 1,
        }  # fmt: skip
        for field, value in chosen.items():
            if getattr(self, field) is None:
                setattr(self, field, value)
        self.dim = self.dim or (128 if small else 20 * slots)

    @property
    def small(self) -> bool:
        """True if the settings are those of the CIFAR script."""
        return self.module_side <= 32

    @property
    def lr_ratio(self) -> float:
        """1 up to 32 px (2e-4 both), 4 above (4e-4 and 1e-4)."""
        return 1.0 if self.small else 4.0

    def recipe(self, **changes: Any) -> Recipe:
        settings: dict[str, Any] = {"betas": (0.0, 0.999), "ema": 0.9999, "ema_buffers": "average"}
        if self.small:
            settings |= {"batch": 50, "lr": 2e-4, "ema_start": 1_000}
        else:
            settings |= {"batch": 256, "accumulate": 8, "lr": 1e-4, "eps": 1e-6, "ema_start": 20_000}
        return super().recipe(**settings).changed(**changes)

    @property
    def _shape(self) -> Shape:
        assert self.width is not None
        assert self.attention is not None
        eps = 1e-8 if self.small else 1e-6
        return Shape(self.module_side, self.channels, max(1, self.classes), self.width, self.attention, eps)

    def build(self) -> nn.Module:
        network = GeneratorNetwork(self._shape, self.dim, self.shared or 0, NORM_EPS)
        return initialize(network, orthogonal=not self.small)

    def discriminator(self) -> nn.Module:
        return initialize(DiscriminatorNetwork(self._shape), orthogonal=not self.small)
