"""SSD (Sehwag et al. 2021, arXiv:2103.12051): Mahalanobis distance of features learned by contrast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farout.core import ImageSet
from farout.detectors.catalog import register
from farout.detectors.math.clusters import kmeans
from farout.detectors.math.gaussian import class_means, covariance, squared_distances, whitener
from farout.detectors.trained.contrastive.losses import contrastive_loss
from farout.detectors.trained.contrastive.network import ContrastiveNetwork
from farout.detectors.trained.contrastive.views import Views
from farout.detectors.trained.detector import BY_PRESET, Inputs, Preset, TrainedDetector, TrainingSets
from farout.identity import Json
from farout.training import Batch, Context, Recipe, Task

ENCODER = "encoder."
VIEWS = Views(area=(0.2, 1.0))
TEMPERATURE, BASE = 0.5, 0.07
"""Temperature of the loss, and the one that its scale is divided by."""
MEAN, STD = (0.491, 0.482, 0.447), (0.202, 0.199, 0.201)
"""Normalizer of the authors' training on CIFAR-10."""


class ContrastiveTask(Task):
    """Two views of every image; the loss draws them, or all views of a class, together."""

    def __init__(self, network: ContrastiveNetwork, supervised: bool) -> None:
        self.network, self.supervised, self.modules = network, supervised, {"network": network}

    @property
    def identity(self) -> Json:
        return {"name": "contrastive", "version": 1, "supervised": self.supervised}

    def loss(self, player: str, batch: Batch, context: Context) -> Tensor:
        images = torch.cat([VIEWS(batch.images, context.generator), VIEWS(batch.images, context.generator)])
        vectors = self.network.unit(self.network(images))
        groups = torch.arange(len(batch.images), device=images.device)
        if self.supervised:
            assert batch.labels is not None
            groups = batch.labels
        return contrastive_loss(vectors, groups.repeat(2), TEMPERATURE) * (TEMPERATURE / BASE)


@register
@dataclass(kw_only=True, eq=False)
class SSD(TrainedDetector):
    """Smallest squared Mahalanobis distance of contrastive features to the clusters of the training images.

    Features have unit norm and are standardized per dimension by mean and standard deviation of the training images.
    """

    name = "ssd"
    presets: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {
        "small": {"encoder": "resnet18", "width": 16},
        "full": {"encoder": "resnet50", "width": 64},
    }
    encoder: str = BY_PRESET
    """Name of the network whose features are learned."""
    width: int = BY_PRESET
    """Channels of its first stage."""
    clusters: int = 1
    """Clusters of the training images, each with its own mean and covariance."""
    supervised: bool = False
    """Learn from labels, too: SSD+ (section 3.2), with the loss of Khosla et al. 2020."""
    mean_twice: bool = False
    """Subtract the mean of the raw features again after standardizing, as EvG's code does by mistake; with one cluster
    only."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mean_twice and self.clusters != 1:
            raise ValueError(f"mean_twice is the authors' code for one cluster, got clusters={self.clusters}")

    def recipe(self) -> Recipe:
        epochs, batch = (500, 512) if self.preset == "full" else (20, 256)
        return Recipe(
            epochs=epochs, batch=batch, lr=0.5, nesterov=False, weight_decay=1e-4, schedule="cosine", augment="none"
        )

    def build(self, inputs: Inputs) -> dict[str, nn.Module]:
        mean, std = self._normalizer(inputs.channels)
        network = ContrastiveNetwork(
            self.encoder, side=inputs.side, channels=inputs.channels, width=self.width, mean=mean, std=std
        )
        return {"network": network}

    def _normalizer(self, channels: int) -> tuple[float | Sequence[float], float | Sequence[float]]:
        """Return the authors' normalizer for preset full, averaged for gray images."""
        if self.preset == "small":
            return 0.5, 0.5
        return (MEAN, STD) if channels == 3 else (fmean(MEAN), fmean(STD))

    def import_state(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return our tensors from those of the authors' SSLResNet, whose encoder was trained data-parallel."""
        encoder = {key: key.removeprefix(ENCODER).removeprefix("module.") for key in tensors if key.startswith(ENCODER)}
        state = {f"network.encoder.{name}": tensors[key] for key, name in encoder.items()}
        for layer in ("0.weight", "0.bias", "2.weight", "2.bias"):
            state[f"network.simclr_layer.{layer}"] = tensors[f"head.{layer}"]
        return state

    def task(self, sets: TrainingSets) -> Task:
        if self.supervised and sets.train.labels is None:
            raise ValueError("ssd with supervised=True learns from labels, and the training images have none")
        return ContrastiveTask(self.network, self.supervised)

    @property
    def network(self) -> ContrastiveNetwork:
        """Trained network."""
        network = self.modules["network"]
        assert isinstance(network, ContrastiveNetwork)
        return network

    def features(self, images: Tensor) -> Tensor:
        """Return the features with unit norm, [B, D] float64."""
        return F.normalize(self.network(images).double(), dim=1)

    @torch.no_grad()
    def measure(self, train: ImageSet, *, seed: int) -> dict[str, Tensor]:
        device = next(self.network.parameters()).device
        features = torch.cat([self.features(part.to(device)) for part in train])
        mean, std = features.mean(0), features.std(0, correction=0).clamp_min(1e-10)
        rows = (features - mean) / std
        members = kmeans(rows, self.clusters, seed)
        whiteners, centers = [], []
        for index in range(self.clusters):
            own = rows[members == index]
            one = own.new_zeros(len(own), dtype=torch.long)
            center = class_means(own, one, 1)
            whitening = whitener(covariance(own, center, one))
            whiteners.append(F.pad(whitening, (0, whitening.shape[0] - whitening.shape[1])))
            centers.append(mean if self.mean_twice else center[0])
        return {"mean": mean, "std": std, "whiteners": torch.stack(whiteners), "centers": torch.stack(centers)}

    def compute(self, images: Tensor) -> Tensor:
        rows = (self.features(images) - self.statistics["mean"]) / self.statistics["std"]
        pairs = zip(self.statistics["whiteners"], self.statistics["centers"], strict=True)
        distances = [squared_distances(rows, whitening, (center @ whitening)[None]) for whitening, center in pairs]
        return torch.cat(distances, 1).amin(1)
