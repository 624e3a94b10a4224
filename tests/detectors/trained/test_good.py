"""GOOD: its loss, its schedules, and its guarantee."""

from __future__ import annotations

import copy
import functools
import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from farout import metrics
from farout.attacks.catalog import ATTACKS
from farout.attacks.target import Target
from farout.detectors.trained.detector import Inputs, TrainingSets
from farout.detectors.trained.good import GOOD, certified_gaps, quantile_loss
from farout.training import Position, fit
from farout.training.classifier import Classifier
from helpers.easy_sets import bright, halves, striped

TRAIN, OTHERS, TESTED = halves(64), bright(64), striped(24)
EPSILON = 0.01


@functools.cache
def fitted() -> GOOD:
    return GOOD(training={"epochs": 6, "batch": 16, "augment": "none"}).fit(
        TRAIN, val=halves(16), auxiliary_outliers=OTHERS
    )


def test_outliers_with_the_smallest_bounds_are_bounded_and_the_others_are_not() -> None:
    bounds = torch.tensor([9.0, 1.0, 3.0, 2.0, 4.0])
    gaps = torch.zeros(5, 2, 2)
    gaps[:, 0, 1] = bounds
    logits = torch.stack([torch.zeros(5), bounds / 2], 1)
    expected = [math.log(1 + reach**2 / 2) for reach in (4.5, 1, 3, 2, 4)]
    assert quantile_loss(gaps, logits, 0.8).item() == pytest.approx(np.mean(expected))
    expected = [math.log(1 + (reach / 2) ** 2 / 2) for reach in bounds.tolist()]
    assert quantile_loss(gaps, logits, 0.0).item() == pytest.approx(np.mean(expected))


def test_schedules_are_those_of_the_paper() -> None:
    detector = GOOD(preset="full")
    detector.modules = GOOD().build(Inputs(1, 28, 2))
    task = detector.task(TrainingSets(TRAIN, TRAIN, OTHERS))

    def at(epoch: int) -> tuple[float, float]:
        position = Position("good", epoch, epoch * 10, 9000, 10)
        return task.scalars["kappa"](position), task.scalars["epsilon"](position)

    expected = [(2 / 300, 0), (6 / 300, 0), (106 / 300, 0.005), (1, 0.01)]
    np.testing.assert_allclose([at(epoch) for epoch in (0, 4, 104, 500)], expected, atol=1e-12)
    assert [stage.name for stage in task.stages] == ["ceda", "good"]
    assert task.stages[1].changes["epochs"] == 900


def position(step: int) -> Position:
    return Position("good", 0, step, 100, 10)


def test_the_weight_is_the_last_value_of_kappa_in_the_second_stage_alone() -> None:
    detector = GOOD(weight=0.25)
    detector.modules = detector.build(Inputs(1, 28, 2))
    kappa = detector.task(TrainingSets(TRAIN, TRAIN, OTHERS)).scalars["kappa"]
    np.testing.assert_allclose([kappa(position(step)) for step in (0, 20, 40, 99)], [0, 0.125, 0.25, 0.25])
    assert kappa(position(99)._replace(stage="ceda")) == 1
    assert detector.identity() != GOOD().identity()
    with pytest.raises(ValueError, match=r"weight must be a finite number of at least 0, got -1\.0"):
        GOOD(weight=-1.0)


def test_without_weight_the_second_stage_is_plain_training() -> None:
    def weights(weight: float, plain: bool = False) -> Tensor:
        detector = GOOD(weight=weight, training={"steps": 4, "batch": 16, "augment": "none"})
        detector.modules = {"network": copy.deepcopy(fitted().network)}
        task: Classifier = detector.task(TrainingSets(TRAIN, TRAIN, OTHERS))
        stages, task = task.stages[1:], Classifier(detector.network, TRAIN) if plain else task
        task.stages = stages
        fit(task, TRAIN, detector.changed_recipe())
        return detector.network.module.linear.weight.detach()  # type: ignore[union-attr, return-value]

    torch.testing.assert_close(weights(0.0), weights(0.0, plain=True))
    assert not torch.allclose(weights(1.0), weights(0.0), rtol=1e-3)


def test_without_a_radius_the_certificate_is_the_confidence() -> None:
    detector, images = fitted(), TESTED.batch(range(8))
    logits = detector.network(images).logits
    torch.testing.assert_close(detector.certified_confidence(images, 0.0), 1 - detector.score(images))
    gaps = certified_gaps(detector.network, images, images)
    torch.testing.assert_close(gaps.flatten(1).amax(1), logits.amax(1) - logits.amin(1))


def test_the_certificate_grows_with_the_radius() -> None:
    bounds = [fitted().certified_confidence(TESTED.batch(range(8)), radius) for radius in (0.0, 0.005, 0.01, 0.1, 1)]
    assert all((small <= large).all() for small, large in itertools.pairwise(bounds))
    assert bounds[-1].max() <= 1


def test_no_attack_exceeds_the_guarantee_and_auc_falls_from_clean_to_guaranteed() -> None:
    detector, images = fitted(), TESTED.batch(range(len(TESTED)))
    with torch.no_grad():
        certified = detector.certified_confidence(images, EPSILON)
    labels, lowest = detector.network(images).logits.argmin(1), detector.score(images).detach()
    target = Target(detector.network, detector)
    for name, params in {
        "score_pgd": {"steps": 20},
        "pgd": {"steps": 20},
        "apgd_ce": {"steps": 20},
        "fgsm": {},
    }.items():
        rngs = [torch.Generator().manual_seed(index) for index in range(len(images))]
        found = ATTACKS.create(name, epsilon=EPSILON, **params).run(target, images, labels, rngs)
        assert (found - images).abs().max() <= EPSILON + 1e-6
        lowest = torch.minimum(lowest, detector.score(found).detach())
    assert (1 - lowest <= certified + 1e-6).all()
    assert (1 - lowest > 1 - detector.score(images) + 1e-4).any()
    inliers = detector.score(TRAIN.batch(range(64))).detach().numpy()
    clean, adversarial, guaranteed = (
        metrics.auroc(inliers, one.detach().numpy()) for one in (detector.score(images), lowest, 1 - certified)
    )
    assert guaranteed <= adversarial <= clean


def test_a_quantile_is_a_fraction() -> None:
    with pytest.raises(ValueError, match="quantile must be from 0 to 1"):
        GOOD(quantile=80)
