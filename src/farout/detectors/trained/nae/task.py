"""Training of the normalized autoencoder: as an autoencoder, then as an energy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from farout.core import ImageSet
from farout.detectors.trained.density import dequantize
from farout.detectors.trained.nae.chains import Chain, ReplayBuffer
from farout.identity import Json
from farout.training import Batch, Context, Stage, StageHistory, Task

AUTOENCODER, ENERGY = "autoencoder", "energy"
"""Names of the stages."""
PATIENCE = 4
"""The first stage ends with this epoch without improvement, counted over the whole stage."""


def energies(modules: Mapping[str, nn.Module], images: Tensor) -> Tensor:
    """Return the squared reconstruction error per value of every image, [B] (Yoon et al. 2021, eq. 6, with T = 1)."""
    rebuilt: Tensor = modules["decoder"](modules["encoder"](images))
    return (rebuilt - images).square().flatten(1).mean(1)


class NormalizedAutoencoder(Task):
    """Minimize the energy of inliers, then also maximize that of samples from the model."""

    figure = "validation error"

    def __init__(
        self,
        modules: Mapping[str, nn.Module],
        val: ImageSet,
        latent_chain: Chain,
        data_chain: Chain,
        buffer: ReplayBuffer,
        energy: Mapping[str, Any],
    ) -> None:
        """Create the task. energy: settings of the recipe that differ in the second stage."""
        self.modules, self.val = modules, val
        self.latent_chain, self.data_chain, self.buffer = latent_chain, data_chain, buffer
        self.stages = (Stage(AUTOENCODER, keep="min"), Stage(ENERGY, energy))

    @property
    def identity(self) -> Json:
        chains = {"latent": self.latent_chain.steps, "data": self.data_chain.steps, "buffer": self.buffer.size}
        return {"name": "nae", "version": 1, "validation": self.val.fingerprint, **chains}

    def loss(self, player: str, batch: Batch, context: Context) -> Tensor:
        images = dequantize(batch.images, context.generator)
        inliers = energies(self.modules, images)
        if context.position.stage == AUTOENCODER:
            return inliers.mean()
        samples = energies(self.modules, self.sample(len(images), context))
        return inliers.mean() - samples.mean() + samples.square().mean()

    def sample(self, count: int, context: Context) -> Tensor:
        """Draw images by a latent chain from the replay buffer and a data chain from its decoded end."""
        decoder = self.modules["decoder"]
        starts = self.buffer.draw(count, context.generator, context.device)
        latents = self.latent_chain.run(starts, lambda z: energies(self.modules, decoder(z)))
        self.buffer.push(latents)
        with torch.no_grad():
            first = self.data_chain.project(decoder(latents))
        return self.data_chain.run(first, lambda x: energies(self.modules, x))

    @torch.no_grad()
    def validate(self, context: Context) -> float:
        total = sum(float(energies(self.modules, part.to(context.device)).double().sum()) for part in self.val)
        return total / len(self.val)

    def stops(self, history: StageHistory) -> bool:
        figures = history.figures
        worse = sum(figure >= min(figures[:epoch]) for epoch, figure in enumerate(figures) if epoch)
        return history.stage == AUTOENCODER and worse >= PATIENCE

    def state(self) -> dict[str, Tensor]:
        return {"buffer": self.buffer.latents} if len(self.buffer.latents) else {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self.buffer.latents = state.get("buffer", self.buffer.latents[:0])
