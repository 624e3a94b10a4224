"""CEDA and ACET: noise, the rise of κ, and the inner maximization."""

from __future__ import annotations

import math

import pytest
import torch

import farout
from farout.detectors.trained import noise
from farout.detectors.trained.acet import ACET, AdversarialConfidence, uniform_distance
from farout.detectors.trained.ceda import CEDA, max_log_probability
from farout.detectors.trained.detector import Inputs, TrainingSets
from farout.detectors.trained.noise import low_pass, noise_like, permuted
from farout.training import Position
from helpers.easy_sets import halves

TRAIN, OTHERS = farout.load("toy", "train").limit(64), farout.load("toy", "test/ood_pair").limit(32)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_permuted_images_have_the_same_pixels_in_another_order() -> None:
    images = TRAIN.batch(range(2))
    found = permuted(images, generator())
    for before, after in zip(images.flatten(2), found.flatten(2), strict=True):
        assert not torch.equal(before, after)
        assert sorted(map(tuple, before.T.tolist())) == sorted(map(tuple, after.T.tolist()))


def test_the_filter_is_a_gaussian_of_15_by_15_pixels() -> None:
    point = torch.zeros(1, 1, 31, 31, dtype=torch.float64)
    point[0, 0, 15, 15] = 1
    found = low_pass(point, 2.0)[0, 0]
    assert found.sum().item() == pytest.approx(1)
    assert (found[8:23, 8:23] > 0).all()
    assert not found[:8].any()
    assert (found[15, 18] / found[15, 15]).item() == pytest.approx(math.exp(-(3**2) / 8))


def test_noise_is_smooth_and_fills_the_range() -> None:
    found = noise_like(TRAIN.batch(range(8)), generator())
    rows = found.flatten(1)
    assert torch.equal(rows.amin(1), torch.zeros(8))
    assert torch.equal(rows.amax(1), torch.ones(8))
    steps = (found[..., 1:] - found[..., :-1]).square().mean().sqrt()
    assert steps < 0.6 * found.std()  # √2 for noise without a filter


def test_the_first_half_is_permuted_and_the_rest_uniform() -> None:
    """Permuted pixels of a gray image are that image again, which has no range to fill."""
    found = noise_like(torch.full((5, 3, 16, 16), 0.5), generator()).flatten(1)
    assert (found.amax(1) - found.amin(1)).round().tolist() == [0, 0, 1, 1, 1]


def test_the_width_of_the_filter_is_drawn_from_1_to_2_and_a_half(monkeypatch: pytest.MonkeyPatch) -> None:
    widths: list[float] = []
    monkeypatch.setattr(noise, "low_pass", lambda images, sigma: widths.append(sigma) or images)
    for seed in range(200):
        noise_like(TRAIN.batch([0]), torch.Generator().manual_seed(seed))
    assert min(widths) == pytest.approx(1, abs=0.05)
    assert max(widths) == pytest.approx(2.5, abs=0.05)


def test_kappa_rises_as_goods_authors_set_it() -> None:
    task = full(CEDA)
    kappa = task.scalars["kappa"]
    found = [kappa(Position("", epoch, epoch * 10, 4200, 10)) for epoch in (0, 60, 210, 360, 419)]
    assert found == pytest.approx([0, 0, 0.5, 1, 1])


def test_acet_attacks_from_epoch_6_on() -> None:
    epsilon = full(ACET).scalars["epsilon"]
    assert [epsilon(Position("", epoch, epoch * 10, 2000, 10)) for epoch in (0, 5, 6, 100)] == [0, 0, 0.01, 0.01]


def full(kind: type[CEDA]):
    """Task of the preset "full", on a small network."""
    detector = kind(preset="full")
    detector.modules = kind().build(Inputs(3, 32, 4))
    return detector.task(TrainingSets(TRAIN, TRAIN, OTHERS))


def attacking(outliers: bool) -> tuple[AdversarialConfidence, torch.Tensor]:
    detector = ACET(steps=10)
    torch.manual_seed(0)
    detector.modules = detector.build(Inputs(3, 32, 4))
    task = detector.task(TrainingSets(TRAIN, TRAIN, OTHERS if outliers else None))
    assert isinstance(task, AdversarialConfidence)
    return task, OTHERS.batch(range(8))


@pytest.mark.parametrize(("outliers", "loss"), [(True, uniform_distance), (False, max_log_probability)])
def test_the_attack_raises_the_loss_of_every_outlier_and_stays_in_the_ball(outliers: bool, loss: object) -> None:
    task, images = attacking(outliers)
    assert task.epsilon == (0.01 if outliers else 0.3)
    found = task.attack(images, 0.05, generator())
    assert (found - images).abs().max() <= 0.05 + 1e-6
    assert found.min() >= 0
    assert found.max() <= 1
    before, after = (loss(task.network(one).logits) for one in (images, found))  # type: ignore[operator]
    assert (after > before).all()
    assert not any(parameter.grad is not None for parameter in task.network.parameters())


def test_acet_trains_on_attacked_noise_and_lowers_its_confidence() -> None:
    train, training = halves(64), {"epochs": 8, "batch": 16, "augment": "none"}
    detector = ACET(steps=2, training=training).fit(train, val=halves(16))
    others = noise_like(halves(32, seed=3).batch(range(32)), generator())
    assert detector.history[0].figures[-1] == 1
    assert detector.score(others).mean() > 0.15 > 1.5 * detector.score(train.batch(range(32))).mean()
