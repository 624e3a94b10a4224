"""Distances of image sets over a network: the features are its head's inputs, batches do not matter."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import farout
from farout.metrics import fid, fid_interval, prdc
from farout.networks import create
from farout.networks.fidelity import fidelity, image_fid, penultimate_features


def noise(count: int, seed: int, dark: float = 1.0) -> farout.ImageSet:
    pixels = np.random.default_rng(seed).random((count, 1, 16, 16), np.float32) * dark
    return farout.ImageSet.from_arrays(pixels, name=f"noise {seed}")


def test_features_are_the_inputs_of_the_head() -> None:
    network, images = create("lenet", 3, 16, 1), noise(300, 0)
    found = penultimate_features(network.train(), images)
    assert network.training
    with torch.no_grad():
        whole = network.eval()(images.batch(np.arange(300)))
    np.testing.assert_allclose(found, whole.features.numpy(), rtol=1e-4, atol=1e-5)
    assert network.head is not None
    np.testing.assert_allclose(
        found @ network.head.weight.numpy().T + network.head.bias.numpy(), whole.logits, rtol=1e-4, atol=1e-4
    )


def test_all_distances_of_two_sets() -> None:
    network, reference, images = create("lenet", 3, 16, 1), noise(200, 0), noise(150, 1, dark=0.7)
    a, b = penultimate_features(network, reference), penultimate_features(network, images)
    found = fidelity(network, reference, images, features="lenet, untrained", k=3)
    assert found.fid == fid_interval(a, b)
    assert found.prdc == prdc(a, b, k=3)
    assert (found.features, found.counts) == ("lenet, untrained", (200, 150))
    assert image_fid(network, reference, images) == pytest.approx(fid(a, b), rel=1e-9)
    same = image_fid(network, reference, noise(200, 2))
    assert same < 0.2 * found.fid.value


def test_the_feature_network_must_have_a_name() -> None:
    with pytest.raises(ValueError, match="features is empty, expected the name of the feature network"):
        fidelity(create("lenet", 3, 16, 1), noise(9, 0), noise(9, 1), features=" ")
