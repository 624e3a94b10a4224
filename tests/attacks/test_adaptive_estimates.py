"""Estimated gradients: against known ones, and attacks on detectors that have none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from farout import Detector, Network
from farout.attacks.adaptive import AdaptivePGD
from farout.attacks.estimates import DifferentiableTarget, estimate_gradient, has_gradient
from farout.attacks.score_descent import ScorePGD
from farout.attacks.target import Target

SHAPE = (3, 4, 4)
PIXELS = 48
WEIGHT = torch.randn(SHAPE, generator=torch.Generator().manual_seed(5)).double()


def generators(total: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(100 + index) for index in range(total)]


def draw(total: int, seed: int = 0) -> Tensor:
    return 0.3 + 0.4 * torch.rand(total, *SHAPE, generator=torch.Generator().manual_seed(seed))


class Scored(Detector):
    """A score by a function of the images."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def score(self, images: Tensor) -> Any:
        return self.function(images)


def linear(images: Tensor) -> Tensor:
    return (images.double() * WEIGHT).flatten(1).sum(1)


def by_numpy(images: Tensor) -> Any:
    """As `linear`; it refuses tensors that require gradients."""
    return np.einsum("bchw,chw->b", images.numpy().astype(np.float64), WEIGHT.numpy())


def rounding(images: Tensor) -> Tensor:
    """As `linear` of 8-bit images: its gradient is zero wherever it has one."""
    return linear((images * 255).round() / 255)


def quadratic(images: Tensor) -> Tensor:
    """½ Σ w x² + Σ x_i x_{i+1}: its gradient is w x + the neighbors."""
    flat = images.double().flatten(1)
    return (WEIGHT.flatten() * flat.square()).sum(1) / 2 + (flat[:, 1:] * flat[:, :-1]).sum(1)


def quadratic_slope(images: Tensor) -> Tensor:
    flat = images.double().flatten(1)
    neighbors = torch.zeros_like(flat)
    neighbors[:, 1:] += flat[:, :-1]
    neighbors[:, :-1] += flat[:, 1:]
    return (WEIGHT.flatten() * flat + neighbors).view(images.shape)


@pytest.mark.parametrize(
    ("function", "slope"),
    [(linear, lambda images: WEIGHT.expand_as(images)), (quadratic, quadratic_slope)],
    ids=["linear", "quadratic"],
)
def test_estimates_are_unbiased_with_the_variance_of_gaussian_directions(function: Any, slope: Any) -> None:
    """g = mean of (w·u)u over n pairs has the mean w and the covariance (|w|² I + w wᵀ) / n."""
    images, pairs = draw(200), 40
    errors = (estimate_gradient(function, images, generators(200), pairs=pairs, reach=1e-3) - slope(images)).flatten(1)
    squares = slope(images).flatten(1).square()
    variances = (squares.sum(1, keepdim=True) + squares) / pairs
    spread = (errors.square().sum(1) / variances.sum(1)).mean()
    assert abs(float(spread) - 1) < 0.15
    deviations = errors.sum(0) / variances.sum(0).sqrt()
    assert deviations.abs().max() < 4
    assert 0.5 < float(deviations.square().mean()) < 1.7


def test_queries_stay_within_pixels_and_signs_are_kept_at_the_faces() -> None:
    asked = []

    def watched(images: Tensor) -> Tensor:
        asked.append(images)
        return linear(images)

    images = torch.cat([torch.zeros(1, *SHAPE), torch.ones(1, *SHAPE)])
    found = estimate_gradient(watched, images, generators(2), pairs=2000, reach=0.05)
    assert len(asked) == 4000
    assert min(float(some.min()) for some in asked) == 0
    assert max(float(some.max()) for some in asked) == 1
    large = (WEIGHT.abs() > 1).expand_as(images)
    assert torch.equal(found[large].sign(), WEIGHT.expand_as(images)[large].sign())
    assert torch.allclose(found, WEIGHT.expand_as(images) / 2, atol=5 * float(WEIGHT.norm()) / 2000**0.5)


def test_what_has_a_gradient_is_told_from_what_has_none() -> None:
    images = draw(4)
    assert has_gradient(linear, images)
    assert has_gradient(quadratic, images)
    assert has_gradient(lambda batch: 0 * linear(batch), images)  # a score that says nothing has nothing to estimate
    assert not has_gradient(lambda batch: torch.from_numpy(by_numpy(batch)), images)
    assert not has_gradient(lambda batch: linear(batch.detach()), images)
    assert not has_gradient(rounding, images)
    assert not has_gradient(lambda batch: (linear(batch) - linear(batch).detach()).abs().sqrt() + linear(batch), images)


def test_scores_keep_their_values_and_get_the_estimate_for_a_gradient() -> None:
    images = draw(3).requires_grad_()
    differentiable = DifferentiableTarget.of(
        Target(None, Scored(by_numpy)), images, generators(3), queries=20, reach=1e-3
    )
    assert differentiable.estimated
    scores = differentiable.score(images)
    assert torch.equal(scores.detach(), torch.from_numpy(by_numpy(images.detach())))
    (found,) = torch.autograd.grad((2 * scores).sum(), images)
    expected = 2 * estimate_gradient(linear, images.detach(), generators(3), pairs=10, reach=1e-3)
    assert torch.allclose(found.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("function", [by_numpy, rounding], ids=["numpy", "rounding"])
def test_a_score_without_gradient_falls_nearly_as_far_as_it_can(function: Any) -> None:
    images, epsilon = draw(4), 8 / 255
    found = ScorePGD(steps=60).run(Target(None, Scored(function)), images, torch.zeros(4).long(), generators(4))
    falls = linear(images) - linear(found)
    assert (found - images).abs().max() <= epsilon + 1e-6
    assert (falls > 0.9 * epsilon * WEIGHT.abs().sum()).all()


def test_classifier_and_black_box_are_fooled_together() -> None:
    contrast = torch.randn(PIXELS, generator=torch.Generator().manual_seed(6))
    module = nn.Sequential(nn.Flatten(), nn.Linear(PIXELS, 2, bias=False))
    with torch.no_grad():
        module[1].weight.copy_(torch.stack([contrast, -contrast]))  # type: ignore[operator]
    network, images, epsilon = Network(module, mean=[0.0] * 3, std=[1.0] * 3, side=4), draw(4), 0.2
    labels = network(images).logits.argmax(1)
    assert ((images.flatten(1) @ contrast).abs() < epsilon * contrast.abs().sum() / 2).all()
    target = Target(network, Scored(by_numpy))
    found = AdaptivePGD(epsilon=epsilon, steps=60).run(target, images, labels, generators(4))
    assert (network(found).logits.argmax(1) != labels).all()
    assert (linear(images) - linear(found) > 0.5 * epsilon * WEIGHT.abs().sum()).all()


def test_an_error_of_the_detector_itself_is_not_hidden() -> None:
    def broken(images: Tensor) -> Tensor:
        raise OSError("the service does not answer")

    with pytest.raises(OSError, match="does not answer"):
        ScorePGD(steps=2).run(Target(None, Scored(broken)), draw(2), torch.zeros(2).long(), generators(2))
