"""Densities of images: their base, the task that maximizes the likelihood, and detectors that score by it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from farout.core import ImageSet
from farout.detectors.trained.detector import Inputs, TrainedDetector, TrainingSets
from farout.identity import Json
from farout.rng import generator
from farout.tensors import chunks
from farout.training import Batch, Context, Stage, Task

DENSITY = "density"
"""Name of the module that holds the density of the inliers."""
INITIAL = 256
"""Images that initialize a density, where there are so many; two images would make a flow diverge."""


class Density(nn.Module, ABC):
    """Probability distribution of 8-bit images."""

    @abstractmethod
    def log_likelihood(self, images: Tensor) -> Tensor:
        """Return ln p of images [B, C, H, W] in [0, 1], as 8-bit values: [B], in nats."""

    def noisy(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Return the images as they train: a continuous density adds noise."""
        return images

    def initialize(self, images: Tensor) -> None:
        """Set weights from training images, before the first step."""


def dequantize(images: Tensor, generator: torch.Generator) -> Tensor:
    """Return 8-bit images in [0, 1] with uniform noise within their bins, (255 x + u) / 256 (Theis et al. 2016)."""
    noise = torch.rand(images.shape, generator=generator, dtype=images.dtype)
    return (images * 255 + noise.to(images.device)) / 256


def bits_per_dimension(nats: Tensor, images: Tensor) -> Tensor:
    """Return a log-likelihood as negative bits per value of an image."""
    return -nats / (math.log(2) * images[0].numel())


class Likelihood(Task):
    """Maximize the likelihood of a density; the epoch with the fewest validation bits per dimension is kept."""

    stages: tuple[Stage, ...] = (Stage(keep="min"),)
    figure = "validation bits per dimension"

    def __init__(self, density: Density, sets: TrainingSets) -> None:
        self.density, self.train, self.val = density, sets.train, sets.val
        self.modules = {DENSITY: density}

    @property
    def identity(self) -> Json:
        return {"name": "likelihood", "version": 1, "validation": self.val.fingerprint}

    def trained(self, context: Context) -> Density:
        """Return the density that the current stage trains."""
        return self.density

    def prepared(self, images: Tensor, context: Context) -> Tensor:
        """Return images as the current stage sees them."""
        return self.trained(context).noisy(images, context.generator)

    def start_epoch(self, context: Context) -> None:
        if context.position.epoch == 0:
            self.trained(context).initialize(self.prepared(sample_images(self.train, context), context))

    def loss(self, player: str, batch: Batch, context: Context) -> Tensor:
        return -self.trained(context).log_likelihood(self.prepared(batch.images, context)).mean()

    @torch.no_grad()
    def validate(self, context: Context) -> float:
        density, total = self.trained(context).eval(), 0.0
        for part in chunks(len(self.val)):
            images = self.val.batch(range(part.start, part.stop)).to(context.device)
            nats = density.log_likelihood(self.prepared(images, context))
            total += float(bits_per_dimension(nats, images).double().sum())
        return total / len(self.val)


def sample_images(images: ImageSet, context: Context) -> Tensor:
    """Return random images that initialize a density."""
    order = torch.randperm(len(images), generator=generator(context.seed, "initial"))
    return images.batch(order[:INITIAL].numpy()).to(context.device)


@dataclass(kw_only=True, eq=False)
class DensityDetector(TrainedDetector):
    """Detector that scores by the negative log-likelihood of a density, in bits per dimension."""

    at_once: ClassVar[int] = 64

    @abstractmethod
    def density(self, channels: int, side: int) -> Density:
        """Return the density of images of this size, with new weights."""

    def build(self, inputs: Inputs) -> dict[str, nn.Module]:
        return {DENSITY: self.density(inputs.channels, inputs.side)}

    def task(self, sets: TrainingSets) -> Task:
        return Likelihood(self.trained_density, sets)

    @property
    def trained_density(self) -> Density:
        """Density of the inliers, after `fit` or `load_state_dict`."""
        density = self.modules[DENSITY]
        assert isinstance(density, Density)
        return density

    def compute(self, images: Tensor) -> Tensor:
        return bits_per_dimension(self.trained_density.log_likelihood(images), images)
