"""StyleGAN2 as a generator: its settings, recipe and training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from farout.generators.conditional import ConditionalGan, ConditionalTask
from farout.generators.gan import Gan
from farout.generators.generator import GENERATORS
from farout.generators.objective import Objective
from farout.generators.stylegan2.discriminator import Discriminator
from farout.generators.stylegan2.penalties import path_lengths, r1_penalty
from farout.generators.stylegan2.synthesis import StyleNetwork
from farout.training import Batch, Context, Player, Recipe

R1_EVERY, PATH_EVERY = 16, 4
"""Turns from one penalty to the next; each is multiplied by this number (Karras et al. 2020, appendix B)."""
PATH_DECAY = 0.01
"""Weight of a new mean length in the moving average of path lengths."""
LR, BETA = 0.0025, 0.99
"""Learning rate and β₂ without lazy penalties; with one every k turns, lr · k / (k + 1) and β₂^(k / (k + 1))."""
SMALL = {"r1": 0.01, "path_length": 0.0, "mixing": 0.0, "residual": False, "group": 32}
LARGE = {"r1": 0.2048, "path_length": 2.0, "mixing": 0.9, "residual": True, "group": 8}
"""Settings up to 32 px and above."""


class StyleGAN2Task(ConditionalTask):
    """Training of StyleGAN2: generator before discriminator, with lazy penalties that share their optimizers."""

    generator: StyleGAN2

    def __init__(self, generator: Gan, discriminator: nn.Module, objective: Objective) -> None:
        super().__init__(generator, discriminator, objective)
        self.mean_length = torch.zeros(())

    def players(self, stage: str) -> tuple[Player, ...]:
        """Return the generator with its path-length penalty, then the discriminator with R1."""
        changes = {"betas": (0.0, BETA ** (R1_EVERY / (R1_EVERY + 1)))}
        players = (
            Player("generator", ("generator",)),
            Player("path_length", ("generator",), every=PATH_EVERY, shares="generator"),
            self.discriminator_player(changes=changes),
            self.discriminator_player("r1", every=R1_EVERY, changes=changes, shares="discriminator"),
        )
        weights = {"path_length": self.generator.path_length, "r1": self.generator.r1}
        return tuple(player for player in players if weights.get(player.name, 1.0))

    def loss(self, player: str, batch: Batch, context: Context) -> Tensor:
        if player == "r1":
            return self.r1_loss(batch)
        return self.path_loss(batch, context) if player == "path_length" else super().loss(player, batch, context)

    def r1_loss(self, batch: Batch) -> Tensor:
        """Return the R1 penalty of the real images, for all turns since the last one."""
        weight = (self.generator.r1 or 0.0) * R1_EVERY
        real = self.generator.inputs(batch.images)
        return weight * r1_penalty(lambda images: self.judge(images, batch.labels, batch), real)

    def path_loss(self, batch: Batch, context: Context) -> Tensor:
        """Return the mean of (length − moving average)² on half a batch, for all turns since the last one."""
        styles, _ = self.styles(max(1, len(batch.images) // 2), context)
        images = self._network.synthesis(styles, fixed=False)
        noise = torch.randn(images.shape, generator=context.generator).to(images)
        lengths = path_lengths(images, styles, noise)
        self.mean_length = self.mean_length.to(lengths).lerp(lengths.detach().mean(), PATH_DECAY)
        return (self.generator.path_length or 0.0) * PATH_EVERY * (lengths - self.mean_length).square().mean()

    def generate(self, batch: Batch, context: Context) -> tuple[Tensor, Tensor | None]:
        styles, labels = self.styles(len(batch.images), context)
        return self._network.synthesis(styles, fixed=False), labels

    def styles(self, count: int, context: Context) -> tuple[Tensor, Tensor | None]:
        """Return styles of random latents and their labels; mixed styles come from two latents each."""
        z, labels = self.inputs(count, context)
        styles = self._network.styles(z, labels)
        if not torch.rand((), generator=context.generator) < (self.generator.mixing or 0.0):
            return styles, labels
        start = int(torch.randint(1, styles.shape[1], (), generator=context.generator))
        others = self._network.styles(self.inputs(count, context)[0], labels)
        return torch.cat([styles[:, :start], others[:, start:]], 1), labels

    @property
    def _network(self) -> StyleNetwork:
        network = self.modules["generator"]
        assert isinstance(network, StyleNetwork)
        return network

    def state(self) -> dict[str, Tensor]:
        return {"mean_length": self.mean_length}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self.mean_length = state["mean_length"]


@GENERATORS.register("stylegan2")
@dataclass(kw_only=True, eq=False)
class StyleGAN2(ConditionalGan):
    """StyleGAN2 (Karras et al. 2020) in the CIFAR-10 configuration of its public code; above 32 px in the usual one.

    Only the direction of a latent matters: it can be searched on the unit sphere. `sample` and `decode` use stored
    noise, so that an image depends on its latent only. Settings that are None depend on the side.
    """

    name = "stylegan2"
    task_type = StyleGAN2Task
    sampling = ("truncation", "truncated")
    settings: ClassVar[Mapping[str, Any]] = {}
    dim: int = 64
    """Coordinates of the latent; 64 in "Evaluation via Generation"."""
    width: int = 512
    """Largest number of channels; above 32 px it is halved with every doubling of the side."""
    style: int = 512
    """Coordinates of a style (w)."""
    r1: float | None = None
    """Weight γ of the R1 penalty, γ/2 · ‖∇D(x)‖²; 0 for none. 0.01 up to 32 px, 0.2048 above. If the
    discriminator's loss goes to 0 and samples collapse, try a larger one, such as 1."""
    path_length: float | None = None
    """Weight of the path-length penalty; 0 for none. 0 up to 32 px, 2 above."""
    mixing: float | None = None
    """Probability that a batch mixes the styles of two latents. 0 up to 32 px, 0.9 above."""
    residual: bool | None = None
    """Residual blocks in the discriminator; above 32 px."""
    group: int | None = None
    """Images in a group of the minibatch standard deviation. 32 up to 32 px, 8 above."""
    truncation: float = 1.0
    """Factor ψ of the distance of styles to their mean in samples; 1 for none."""
    truncated: int | None = None
    """Number of styles, from the first, that are truncated; None for all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for field, value in (SMALL if self.module_side <= 32 else LARGE).items():
            if getattr(self, field) is None:
                setattr(self, field, value)

    @property
    def lr_ratio(self) -> float:
        """Ratio of the corrections for lazy penalties: 20/17."""
        return (LR * R1_EVERY / (R1_EVERY + 1)) / (LR * (PATH_EVERY / (PATH_EVERY + 1)))

    def recipe(self, **changes: Any) -> Recipe:
        small = self.module_side <= 32
        batch = changes.get("batch", 64 if small else 256)
        ratio = PATH_EVERY / (PATH_EVERY + 1)
        settings = {
            "steps": 200_000, "batch": batch, "drop_last": True, "lr": LR * ratio, "betas": (0.0, BETA**ratio),
            "ema": 0.5 ** (batch / (500_000 if small else 20_000)), "ema_ramp": 0.05 if small else 0.0,
        }  # fmt: skip
        return super().recipe(**settings).changed(**changes)

    def build(self) -> nn.Module:
        return StyleNetwork(
            self.module_side, self.channels, latent=self.dim, style=self.style, width=self.width, classes=self.classes
        )

    def discriminator(self) -> nn.Module:
        assert self.residual is not None
        assert self.group is not None
        return Discriminator(
            self.module_side, self.channels, width=self.width, style=self.style, residual=self.residual,
            group=self.group, classes=self.classes,
        )  # fmt: skip

    def generate(self, z: Tensor, labels: Tensor | None = None) -> Tensor:
        network, device = self.fitted, self.device
        assert isinstance(network, StyleNetwork)
        styles = network.styles(z.to(device), None if labels is None else labels.to(device))
        if self.truncation != 1:
            styles = network.truncated(styles, self.truncation, self.truncated)
        return self.pixels(network.synthesis(styles, fixed=True)).clamp(0, 1)
