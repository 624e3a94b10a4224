"""Interval bounds: closed forms for linear layers, and points of the box, corners found by gradient among them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from farout.detectors.math.interval_bounds import Box, log_confidence_bound, logit_gaps, propagate

RNG = torch.Generator().manual_seed(0)


def rand(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=RNG, dtype=torch.float64)


def network() -> nn.Sequential:
    """Every kind of layer that has bounds, with weights of both signs; batch norms scale by negative numbers too."""
    torch.manual_seed(0)
    layers = nn.Sequential(
        nn.Conv2d(3, 6, 3, 2, 1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 4, 3, padding=1, groups=2), nn.AvgPool2d(2), nn.Dropout(0.5), nn.Identity(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5), nn.ReLU(),
    ).double().eval()  # fmt: skip
    norm = layers[1]
    norm.weight.data = 4 * rand(6) - 2
    norm.running_mean.copy_(rand(6) - 0.5)
    norm.running_var.copy_(0.5 + rand(6))
    return layers


def box(images: Tensor, epsilon: float) -> Box:
    return Box(images - epsilon, images + epsilon)


def test_bounds_are_tight_for_a_linear_layer() -> None:
    """Both bounds are attained, at the corners that the signs of the weights select."""
    layer = nn.Linear(7, 3).double()
    low = rand(2, 7)
    inputs = Box(low, low + rand(2, 7))
    found = propagate(layer, inputs)
    for row in range(3):
        highest = torch.where(layer.weight[row] > 0, inputs.upper, inputs.lower)
        lowest = torch.where(layer.weight[row] > 0, inputs.lower, inputs.upper)
        torch.testing.assert_close(found.upper[:, row], layer(highest)[:, row])
        torch.testing.assert_close(found.lower[:, row], layer(lowest)[:, row])


@torch.no_grad()
def test_bounds_contain_the_outputs_of_random_points_and_corners() -> None:
    layers, images = network(), rand(4, 3, 16, 16)
    inputs = box(images, 0.1)
    found = propagate(layers, inputs)
    assert (found.upper > found.lower + 1e-6).any()
    for trial in range(40):
        share = rand(*images.shape) if trial % 2 else rand(*images.shape).round()
        outputs = layers(inputs.lower + share * (inputs.upper - inputs.lower))
        assert (outputs <= found.upper + 1e-12).all()
        assert (outputs >= found.lower - 1e-12).all()


def test_bounds_contain_the_corners_that_gradients_lead_to() -> None:
    layers, images = network(), rand(2, 3, 16, 16)
    found = propagate(layers, box(images, 0.05))
    for output in range(5):
        point = images
        for _ in range(10):
            point = point.detach().requires_grad_()
            (slope,) = torch.autograd.grad(layers(point)[:, output].sum(), point)
            point = images + 0.05 * slope.sign()
        assert (layers(point)[:, output] <= found.upper[:, output] + 1e-12).all()


def test_a_box_without_size_has_the_outputs_as_bounds() -> None:
    layers, images = network(), rand(4, 3, 16, 16)
    found = propagate(layers, box(images, 0.0))
    torch.testing.assert_close(found.lower, layers(images))
    torch.testing.assert_close(found.upper, layers(images))


def test_gaps_of_a_point_are_those_of_its_logits_and_give_its_confidence() -> None:
    head, features = nn.Linear(6, 4).double(), rand(3, 6)
    logits = head(features)
    gaps = logit_gaps(head, Box(features, features))
    torch.testing.assert_close(gaps, logits[:, :, None] - logits[:, None])
    torch.testing.assert_close(log_confidence_bound(gaps), logits.log_softmax(1).amax(1))


def test_gaps_are_attained_one_by_one() -> None:
    """An elided head bounds each difference exactly, where separate bounds of the logits would be looser."""
    head, center = nn.Linear(6, 4).double(), rand(1, 6)
    inputs = Box(center - 0.2, center + 0.2)
    gaps, separate = logit_gaps(head, inputs), propagate(head, inputs)
    for k in range(4):
        for j in range(4):
            corner = center + 0.2 * (head.weight[k] - head.weight[j]).sign()
            torch.testing.assert_close(gaps[0, k, j], (head(corner)[0, k] - head(corner)[0, j]))
    assert (gaps[0] < separate.upper[0][:, None] - separate.lower[0][None] - 1e-6).any()
    assert torch.equal(gaps[0].diagonal(), torch.zeros(4).double())


def test_layers_without_bounds_are_refused() -> None:
    inputs = box(rand(1, 3, 4, 4), 0.1)
    with pytest.raises(TypeError, match="no interval bounds for a GELU"):
        propagate(nn.Sequential(nn.GELU()), inputs)
    for layer in (nn.BatchNorm2d(3).double(), nn.Dropout(0.5)):
        with pytest.raises(ValueError, match="in evaluation mode only"):
            propagate(layer.train(), inputs)
