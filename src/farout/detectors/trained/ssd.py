"""SSD (Sehwag et al. 2021, arXiv:2103.12051): Mahalanobis distance of features learned by contrast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from farout.checks import check_count
from farout.core import ImageSet
from farout.detectors.catalog import register
from farout.detectors.math.clusters import kmeans
from farout.detectors.math.gaussian import class_means, covariance, ledoit_wolf, squared_distances, whitener
from farout.detectors.trained.contrastive.losses import contrastive_loss
from farout.detectors.trained.contrastive.network import ContrastiveNetwork
from farout.detectors.trained.contrastive.views import Views
from farout.detectors.trained.detector import BY_PRESET, Inputs, Outliers, Preset, TrainedDetector, TrainingSets
from farout.identity import Json
from farout.networks.base import NETWORKS
from farout.rng import generator
from farout.training import Batch, Context, Recipe, Task

ENCODER = "encoder."
VIEWS = Views(area=(0.2, 1.0))
TEMPERATURE, BASE = 0.5, 0.07
"""Temperature of the loss, and the one that its scale is divided by."""
COPIES = 10
"""Random views of every known outlier."""
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
    `fit` holds those of all training images, 16 KB each with a ResNet-50.
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
    known: int = 0
    """Known outliers per class, or in all if they have no labels (SSD_k): drawn from the auxiliary outliers, ten random
    views of each. The score is the distance to the inliers minus that to the known outliers, both with covariances of
    Ledoit and Wolf."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("clusters", self.clusters)
        if not isinstance(self.encoder, str):
            raise TypeError(f"encoder must be the name of a network, got {self.encoder!r}")
        NETWORKS[self.encoder]  # raise now if it is unknown
        if (self.mean_twice or self.known) and self.clusters != 1:
            raise ValueError(f"mean_twice and known are defined for one cluster, got clusters={self.clusters}")
        if self.known < 0 or (self.known and self.mean_twice):
            raise ValueError(f"expected known >= 0, and 0 with mean_twice, got known={self.known}")

    @property
    def outliers(self) -> Outliers:  # type: ignore[override]
        return "required" if self.known else "unused"

    @property
    def complete(self) -> bool:
        return super().complete and (not self.known or "outlier_center" in self.statistics)

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

    def check_fit(self, train: ImageSet, auxiliary_outliers: ImageSet | None = None) -> None:
        super().check_fit(train, auxiliary_outliers)
        if self.supervised and train.labels is None and self.weights is None:
            raise ValueError("ssd with supervised=True learns from labels, and the training images have none")
        self._check_clusters(train)

    def _check_clusters(self, train: ImageSet) -> None:
        """Raise if there cannot be two images in every cluster."""
        if 2 * self.clusters > len(train):
            raise ValueError(
                f"ssd: {self.clusters} clusters need two training images each, and there are {len(train)}; "
                "choose fewer clusters"
            )

    def task(self, sets: TrainingSets) -> Task:
        self._check_clusters(sets.train)
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
        rows = features.sub_(mean).div_(std)
        members = kmeans(rows, self.clusters, seed)
        if members.bincount(minlength=self.clusters).amin() < 2:
            raise ValueError(
                f"ssd: one of the {self.clusters} clusters has a single training image, so no covariance; choose fewer"
            )
        whiteners, centers = zip(*(self._gaussian(rows[members == one]) for one in range(self.clusters)), strict=True)
        means = torch.stack([mean] if self.mean_twice else centers)
        return {"mean": mean, "std": std, "whiteners": torch.stack(whiteners), "centers": means}

    @torch.no_grad()
    def measure_outliers(self, outliers: ImageSet, *, seed: int) -> dict[str, Tensor]:
        """Return whitener and mean of the known outliers."""
        draws = generator(seed, "known outliers")
        device = next(self.network.parameters()).device
        images = outliers.batch(select_known(outliers, self.known, draws)).to(device)
        parts = [self.standardized(VIEWS(images, draws)) for _ in range(COPIES)]
        whitening, center = self._gaussian(torch.cat(parts))
        return {"outlier_whitener": whitening, "outlier_center": center}

    def _gaussian(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return whitener [D, D] and mean [D] of standardized features; SSD_k shrinks their covariance."""
        one = rows.new_zeros(len(rows), dtype=torch.long)
        center = class_means(rows, one, 1)
        whitening = whitener(ledoit_wolf(rows, center) if self.known else covariance(rows, center, one))
        return F.pad(whitening, (0, whitening.shape[0] - whitening.shape[1])), center[0]

    def standardized(self, images: Tensor) -> Tensor:
        """Return the features, standardized by mean and standard deviation of the training images."""
        return (self.features(images) - self.statistics["mean"]) / self.statistics["std"]

    def compute(self, images: Tensor) -> Tensor:
        rows = self.standardized(images)
        pairs = zip(self.statistics["whiteners"], self.statistics["centers"], strict=True)
        nearest = torch.cat([_distances(rows, *pair) for pair in pairs], 1).amin(1)
        if not self.known:
            return nearest
        known = _distances(rows, self.statistics["outlier_whitener"], self.statistics["outlier_center"])
        return nearest - known.squeeze(1)


def _distances(rows: Tensor, whitening: Tensor, center: Tensor) -> Tensor:
    """Return the squared Mahalanobis distance of every row to a center, [B, 1]."""
    return squared_distances(rows, whitening, (center @ whitening)[None])


def select_known(outliers: ImageSet, count: int, draws: torch.Generator) -> NDArray[np.int64]:
    """Return the indices of `count` random images of every class; of all images if they have no labels."""
    order = torch.randperm(len(outliers), generator=draws).numpy()
    if outliers.labels is None:
        return order[:count]
    labels = outliers.labels[order]
    return np.concatenate([order[labels == label][:count] for label in np.unique(labels)])
