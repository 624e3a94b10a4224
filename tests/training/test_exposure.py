"""Outlier exposure: the loss by closed form, and what it teaches."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from farout import ImageSet
from farout.networks import create
from farout.networks.passes import forward
from farout.training import Recipe, fit
from farout.training.classifier import Classifier
from farout.training.exposure import ExposedClassifier, uniform_cross_entropy

LOGITS = frozenset({"logits"})


def test_cross_entropy_to_uniform() -> None:
    assert uniform_cross_entropy(torch.full((3, 8), 7.0)).item() == pytest.approx(math.log(8), rel=1e-6)
    p = torch.tensor([[0.5, 0.25, 0.25], [0.8, 0.1, 0.1]]).double()
    expected = -(p.log().sum(1) / 3).mean()
    assert uniform_cross_entropy(p.log() + 4).item() == pytest.approx(expected.item())


def sets() -> tuple[ImageSet, ImageSet, ImageSet]:
    """Two classes, dark and bright at the left half; outliers are bright all over."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 40, (96, 16, 16, 1)).astype(np.uint8)
    labels = np.arange(96) % 2
    images[labels == 1, :, :8] += 200
    outliers = rng.integers(0, 40, (64, 16, 16, 1)).astype(np.uint8)
    outliers += 200
    inliers = ImageSet.from_arrays(images, labels)
    return inliers.subset(range(64)), inliers.subset(range(64, 96)), ImageSet.from_arrays(outliers)


def confidence(outliers: ImageSet | None, weight: float = 0.5) -> tuple[float, float]:
    """Mean confidence on the outliers, and validation accuracy, of a network trained with or without them."""
    train, val, unseen = sets()
    network = create("lenet", 2, 16, 1, seed=0)
    task = Classifier(network, val)
    if outliers is not None:
        task = ExposedClassifier(network, val, outliers, batch=16, weight=weight)
    recipe = Recipe(epochs=6, batch=16, lr=0.02, augment=(), weight_decay=0.0)
    (history,) = fit(task, train, recipe)
    logits = forward(network, unseen.batch(range(len(unseen))), LOGITS).logits
    return float(logits.softmax(1).amax(1).mean()), max(history.figures)


def test_exposed_networks_are_undecided_on_outliers_and_as_accurate() -> None:
    plain, exposed = confidence(None), confidence(sets()[2])
    assert plain[1] == exposed[1] == 1
    assert exposed[0] < 0.75 < plain[0]


def test_the_weight_is_part_of_the_identity() -> None:
    _, val, outliers = sets()
    network = create("lenet", 2, 16, 1, seed=0)
    tasks = [ExposedClassifier(network, val, outliers, batch=16, weight=weight) for weight in (0.5, 1.0)]
    assert tasks[0].identity != tasks[1].identity
