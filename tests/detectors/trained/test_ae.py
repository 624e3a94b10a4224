"""Autoencoder: the paper's size, and its score."""

import torch

import farout
from farout.detectors.trained.ae import AE
from farout.detectors.trained.detector import Inputs


def test_the_full_preset_has_the_papers_number_of_parameters():
    modules = AE(preset="full").build(Inputs(3, 32, 10))
    assert sum(one.numel() for module in modules.values() for one in module.parameters()) == 24_790_275


def test_the_score_is_the_mean_squared_error_and_falls_in_training():
    train = farout.load("toy", "train").limit(200)
    images = train.batch(range(8))
    detector = AE(training={"epochs": 3}).fit(train)
    rebuilt = detector.modules["decoder"](detector.modules["encoder"](images))
    expected = ((rebuilt - images) ** 2).mean((1, 2, 3))
    torch.testing.assert_close(detector.score(images), expected.double())
    errors = detector.history[0].figures
    assert errors[-1] < errors[0]


def test_a_detector_loaded_from_its_state_gives_the_same_scores():
    train = farout.load("toy", "train").limit(64)
    images, detector, other = train.batch(range(8)), AE(training={"epochs": 1}).fit(train), AE()
    other.load_state_dict(detector.state_dict())
    assert torch.equal(detector.score(images), other.score(images))
