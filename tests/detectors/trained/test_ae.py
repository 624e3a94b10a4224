"""Autoencoder: the paper's size, and its score."""

import pytest
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


@pytest.mark.parametrize(("channels", "side"), [(1, 28), (3, 28), (1, 32), (1, 64), (3, 64)])
def test_images_of_all_sides_are_rebuilt_at_their_size(channels: int, side: int) -> None:
    modules = AE(width=4, latent=2).build(Inputs(channels, side, 0))
    images = torch.rand(2, channels, side, side)
    codes = modules["encoder"](images)
    assert codes.shape == (2, 2, 1, 1)
    assert modules["decoder"](codes).shape == images.shape


def test_validation_leaves_the_statistics_of_batch_norm_alone() -> None:
    """Validation measures the error of the score, whose batch norms are in evaluation mode."""
    train, val = farout.load("toy", "train", limit=32), farout.load("noise", limit=16)
    detector = AE(width=4, latent=2, training={"epochs": 1, "batch": 16}).fit(train, val=val)
    score = detector.score(val.batch(range(16))).detach().mean()
    assert detector.history[0].figures[0] == pytest.approx(float(score), rel=1e-5)
    other = AE(width=4, latent=2, training={"epochs": 1, "batch": 16}).fit(train, val=train)
    assert other.digest == detector.digest


def test_the_full_preset_trains_and_scores() -> None:
    few = farout.load("toy", "train", limit=2)
    detector = AE(preset="full", training={"steps": 1}).fit(few, val=few)
    assert detector.score(few.batch([0])).isfinite().all()
