"""Distances between image sets over the features of a network: FID, and precision, recall, density and coverage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from farout.core import ImageSet
from farout.metrics import PRDC, Interval, Moments, fid_interval, frechet_distance, prdc
from farout.metrics.manifold import NEAREST
from farout.networks.network import Network
from farout.tensors import chunks

BATCH = 128


@dataclass(frozen=True)
class Fidelity:
    """Distances of a set of images from a reference set, in the features of a named network."""

    fid: Interval
    prdc: PRDC
    features: str
    """Name of the network whose features were compared; figures of different networks cannot be compared."""
    counts: tuple[int, int]
    """Numbers of images of the reference set and the other: the FID depends on them."""


def fidelity(network: Network, reference: ImageSet, images: ImageSet, *, features: str, k: int = NEAREST) -> Fidelity:
    """Return FID, precision, recall, density and coverage of images beside a reference set, with intervals.

    features: name of the network in tables, such as "resnet18 trained on mnist". Its penultimate features are compared.
    """
    a, b = penultimate_features(network, reference), penultimate_features(network, images)
    return Fidelity(fid_interval(a, b), prdc(a, b, k=k), _named(features), (len(a), len(b)))


def image_fid(network: Network, reference: ImageSet, images: ImageSet) -> float:
    """Return the FID over the network's penultimate features, read batch by batch: for sets of any size."""
    return frechet_distance(feature_moments(network, reference), feature_moments(network, images))


def penultimate_features(network: Network, images: ImageSet) -> NDArray[np.float32]:
    """Return the inputs of the network's last layer [N, D]; the network is put in evaluation mode for the pass."""
    if not len(images):
        raise ValueError(f"the set {images.name!r} has no images; expected at least one")
    return np.concatenate([_features(network, images, part) for part in chunks(len(images), BATCH)])


def feature_moments(network: Network, images: ImageSet) -> Moments:
    """Return mean and covariance of the penultimate features, accumulated batch by batch."""
    moments: Moments | None = None
    for part in chunks(len(images), BATCH):
        rows = _features(network, images, part)
        moments = moments or Moments(rows.shape[1])
        moments.update(rows)
    if moments is None:
        raise ValueError(f"the set {images.name!r} has no images; expected at least two")
    return moments


@torch.inference_mode()
def _features(network: Network, images: ImageSet, part: slice) -> NDArray[np.float32]:
    with network.evaluating():
        batch = images.batch(np.arange(part.start, part.stop)).to(network.device)
        rows: NDArray[np.float32] = network(batch, needs=()).features.float().cpu().numpy()
    return rows


def _named(features: str) -> str:
    if not features.strip():
        raise ValueError('features is empty, expected the name of the feature network, such as "resnet18 of mnist"')
    return features
