"""Detector by likelihood regret, with posteriors optimized for a whole batch at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from farout.checks import check_count
from farout.core import ImageSet
from farout.detectors.catalog import register
from farout.detectors.trained.density import bits_per_dimension
from farout.detectors.trained.detector import BY_PRESET, Inputs, Preset, TrainedDetector, TrainingSets
from farout.detectors.trained.regret.vae import VAE, Posterior
from farout.identity import Json
from farout.rng import generator
from farout.training import Batch, Context, Recipe, Stage, Task

MODEL = "vae"


class EvidenceBound(Task):
    """Maximize the evidence lower bound; the epoch with the fewest validation bits per dimension is kept."""

    stages = (Stage(keep="min"),)
    figure = "validation bits per dimension"

    def __init__(self, vae: VAE, val: ImageSet) -> None:
        self.vae, self.val, self.modules = vae, val, {MODEL: vae}

    @property
    def identity(self) -> Json:
        return {"name": "evidence bound", "version": 1, "validation": self.val.fingerprint}

    def bounds(self, images: Tensor) -> Tensor:
        """Return the negative bound of every image for one draw of its latents."""
        posterior = self.vae.encode(images)
        noise = torch.randn_like(posterior.mean)
        return self.vae.bound(images, posterior, noise[None])

    def loss(self, player: str, batch: Batch, context: Context) -> Tensor:
        return self.bounds(batch.images).mean()

    @torch.no_grad()
    def validate(self, context: Context) -> float:
        self.vae.eval()
        parts = (part.to(context.device) for part in self.val)
        total = sum(float(bits_per_dimension(-self.bounds(part), part).double().sum()) for part in parts)
        return total / len(self.val)


@register
@dataclass(kw_only=True, eq=False)
class LikelihoodRegret(TrainedDetector):
    """Nats that an image's evidence bound gains if its own posterior is optimized (Xiao et al. 2020, eq. 8).

    The authors optimize the encoder's weights for one image after the other. Here the mean and the variance of every
    image's posterior are optimized, for all images of a batch at once, which needs a larger learning rate. Noise is the
    same for all images, so that a score does not depend on the batch.
    """

    name = "likelihood_regret"
    presets: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {
        "small": {"width": 16, "latent": 32, "updates": 8, "step_size": 0.1, "draws": 1},
        "full": {"width": 32, "latent": 100, "updates": 100, "step_size": 0.01, "draws": 4},
    }
    at_once: ClassVar[int] = 32
    width: int = BY_PRESET
    """Channels of the largest hidden layer."""
    latent: int = BY_PRESET
    """Size of the code of the VAE."""
    updates: int = BY_PRESET
    """Steps of Adam on every image's posterior."""
    step_size: float = BY_PRESET
    """Learning rate of these steps."""
    draws: int = BY_PRESET
    """Draws of the latents that the bound is averaged over."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("draws", self.draws)

    def recipe(self) -> Recipe:
        full = Recipe(
            epochs=200, batch=64, optimizer="adam", lr=3e-4, weight_decay=0.0, schedule="constant", augment="none"
        )
        return full if self.preset == "full" else full.changed(epochs=3, lr=1e-3)

    def build(self, inputs: Inputs) -> dict[str, nn.Module]:
        return {MODEL: VAE(inputs.channels, inputs.side, self.width, self.latent)}

    def task(self, sets: TrainingSets) -> Task:
        return EvidenceBound(self._vae, sets.val)

    @property
    def _vae(self) -> VAE:
        vae = self.modules[MODEL]
        assert isinstance(vae, VAE)
        return vae

    def compute(self, images: Tensor) -> Tensor:
        noise = self._noise("judge", self.draws, images)
        before = self._vae.encode(images)
        after = self.optimized(images, before)
        return self._vae.bound(images, before, noise) - self._vae.bound(images, after, noise)

    def optimized(self, images: Tensor, start: Posterior) -> Posterior:
        """Return the posteriors with the largest bound that Adam finds, each for its own image."""
        with torch.inference_mode(False), torch.enable_grad():
            leaves = [one.detach().clone().requires_grad_() for one in start]
            optimizer = torch.optim.Adam(leaves, lr=self.step_size)
            for noise in self._noise("optimize", self.updates, images):
                loss = self._vae.bound(images, Posterior(*leaves), noise[None]).sum()
                for leaf, gradient in zip(leaves, torch.autograd.grad(loss, leaves), strict=True):
                    leaf.grad = gradient
                optimizer.step()
        return Posterior(*(leaf.detach() for leaf in leaves))

    def _noise(self, purpose: str, count: int, images: Tensor) -> Tensor:
        """Return standard normal noise [count, latent], the same in every call."""
        return torch.randn(count, self.latent, generator=generator(0, self.name, purpose)).to(images)
