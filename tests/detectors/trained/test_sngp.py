"""SNGP: bounded layers against dense matrices, the Laplace covariance and the scores against direct computations."""

import math

import pytest
import torch
from torch import nn

import farout
from farout.detectors.trained.detector import Inputs
from farout.detectors.trained.sngp import SNGP
from farout.detectors.trained.sngp.bounded import BoundedBatchNorm, BoundedConvolution
from farout.detectors.trained.sngp.process import (
    dempster_shafer,
    laplace_covariance,
    mean_field,
    orthogonal_frequencies,
)
from farout.networks.wide import PreactivationBlock

MEAN, STD = torch.tensor([0.4914, 0.4822, 0.4465]).view(3, 1, 1), torch.tensor([0.2470, 0.2435, 0.2616]).view(3, 1, 1)


def dense(layer: BoundedConvolution) -> torch.Tensor:
    """Return the matrix of the convolution with its stored weights."""
    size = layer.in_channels * layer.side**2
    inputs = torch.eye(size).view(size, layer.in_channels, layer.side, layer.side)
    return nn.functional.conv2d(inputs, layer.weight, None, layer.stride, layer.padding).flatten(1).T


@pytest.mark.parametrize(("kernel", "stride", "side"), [(3, 1, 5), (3, 2, 6), (3, 2, 5), (1, 2, 6)])
def test_the_gain_of_a_convolution_is_the_largest_singular_value_of_its_matrix(kernel, stride, side):
    torch.manual_seed(0)
    layer = BoundedConvolution(nn.Conv2d(2, 3, kernel, stride, kernel // 2, bias=False), side, bound=3.0)
    layer.iterate(500)
    torch.testing.assert_close(layer.gain(), torch.linalg.matrix_norm(dense(layer), 2), rtol=1e-4, atol=0)


def test_a_convolution_is_scaled_down_to_its_bound_and_never_up():
    torch.manual_seed(0)
    plain, x = nn.Conv2d(2, 3, 3, 1, 1, bias=False), torch.randn(1, 2, 5, 5)
    loose, tight = BoundedConvolution(plain, 5, 100.0).eval(), BoundedConvolution(plain, 5, 0.1).eval()
    tight.iterate(500)
    torch.testing.assert_close(loose(x), plain(x))
    torch.testing.assert_close(tight(x), plain(x) * 0.1 / torch.linalg.matrix_norm(dense(tight), 2), rtol=1e-4, atol=0)


def test_a_batch_norm_is_scaled_down_to_its_bound_and_never_up():
    x = torch.randn(4, 2, 3, 3, generator=torch.Generator().manual_seed(0))
    norm, plain = BoundedBatchNorm(2, 3.0).eval(), nn.BatchNorm2d(2).eval()
    torch.testing.assert_close(norm(x), plain(x))
    norm.weight.data = torch.tensor([6.0, -12.0])
    norm.running_var.copy_(torch.tensor([1.0, 4.0]))  # gains 6 and 6: halved
    plain.weight.data = torch.tensor([3.0, -6.0])
    plain.running_var.copy_(torch.tensor([1.0, 4.0]))
    torch.testing.assert_close(norm(x), plain(x), rtol=1e-4, atol=1e-5)


def test_a_batch_norm_updates_its_statistics_as_torchs_does():
    x = torch.randn(8, 2, 3, 3, generator=torch.Generator().manual_seed(0))
    norm, plain = BoundedBatchNorm(2, 3.0).train(), nn.BatchNorm2d(2).train()
    torch.testing.assert_close(norm(x), plain(x))
    for key, value in plain.state_dict().items():
        torch.testing.assert_close(norm.state_dict()[key], value)


def test_columns_of_a_block_of_frequencies_are_orthogonal_and_have_the_mean_square_of_normal_vectors():
    torch.manual_seed(0)
    frequencies = orthogonal_frequencies(16, 4000)
    block = frequencies[:, :16]
    products = block.T @ block
    torch.testing.assert_close(products - products.diag().diag(), torch.zeros(16, 16), rtol=0, atol=1e-4)
    assert frequencies.square().sum(0).mean() == pytest.approx(16, rel=0.05)
    assert frequencies.norm(dim=0).std() == pytest.approx(0.7, rel=0.1)  # chi with 16 degrees of freedom


def test_the_features_are_cosines_of_normed_projections():
    detector = SNGP(depth=10, factor=1, random_features=500, training={"steps": 1, "batch": 16})
    train = farout.load("toy", "train").limit(16)
    detector.fit(train, val=train)
    module, images = detector.network.module, train.batch(range(3))
    with torch.no_grad():
        projected = module.body((images - MEAN) / STD) @ module.projection
        deviation, mean = torch.std_mean(projected, 1, correction=0, keepdim=True)
        normed = (projected - mean) / (deviation.square() + 1e-5).sqrt() * module.norm.weight + module.norm.bias
        expected = torch.cos(normed @ module.frequencies + module.phases) / 2
        torch.testing.assert_close(detector.network(images, needs=()).features, expected, rtol=1e-3, atol=1e-4)
    assert module.projection.std() == pytest.approx(0.05, rel=0.05)
    assert module.phases.mean() == pytest.approx(math.pi, rel=0.1)
    assert 6 < module.phases.max() < 2 * math.pi


def test_every_layer_of_the_body_is_bounded_on_images_of_its_own_side():
    network = SNGP(depth=10, factor=1, dropout=0.3).build(Inputs(3, 32, 10))["network"]
    body, sides = network.module.body, []
    for part in body.modules():
        assert not isinstance(part, nn.Conv2d) or isinstance(part, BoundedConvolution)
        assert not isinstance(part, nn.BatchNorm2d) or isinstance(part, BoundedBatchNorm)
        if isinstance(part, BoundedConvolution):
            part.register_forward_pre_hook(lambda layer, inputs: sides.append((layer.side, inputs[0].shape[-1])))
    network(torch.rand(1, 3, 32, 32))
    assert {side for side, _ in sides} == {8, 16, 32}
    assert all(one == other for one, other in sides)
    assert {part.dropout for part in body.modules() if isinstance(part, PreactivationBlock)} == {0.3}


def test_a_training_pass_improves_the_estimate_of_a_gain():
    torch.manual_seed(0)
    layer = BoundedConvolution(nn.Conv2d(2, 3, 3, 1, 1, bias=False), 5, bound=3.0)
    layer.image.copy_(torch.randn(1, 2, 5, 5))
    layer.image /= layer.image.norm()
    first = layer.gain()
    layer.eval()(torch.randn(1, 2, 5, 5))
    assert layer.gain() == first
    for _ in range(100):
        layer.train()(torch.randn(1, 2, 5, 5))
    torch.testing.assert_close(layer.gain(), torch.linalg.matrix_norm(dense(layer), 2), rtol=1e-3, atol=0)


def test_the_laplace_covariance_is_the_posterior_of_bayesian_linear_regression():
    """With unit noise and a unit prior the posterior covariance is (I + ΦᵀΦ)⁻¹, whatever the chunks; the predictive
    variance φᵀΣφ equals that of a Gaussian process with the kernel φφᵀ."""
    torch.manual_seed(0)
    train, test = torch.randn(7, 4, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64)
    covariance = laplace_covariance(train.split(3), 4)
    kernel, cross = train @ train.T, test @ train.T
    exact = (test * test).sum(1) - (cross @ torch.linalg.inv(kernel + torch.eye(7)) * cross).sum(1)
    logits = torch.ones(3, 2, dtype=torch.float64)
    torch.testing.assert_close(mean_field(logits, test, covariance, 25.0)[:, 0], (1 + 25 * exact).rsqrt())


def test_the_uncertainty_is_that_of_dempster_and_shafer():
    logits = torch.tensor([[0.0, 0.0, 0.0], [2.0, -1.0, 0.5]], dtype=torch.float64)
    second = 3 / (3 + math.exp(2) + math.exp(-1) + math.exp(0.5))
    torch.testing.assert_close(dempster_shafer(logits), torch.tensor([0.5, second], dtype=torch.float64))


def test_scores_follow_from_features_logits_and_covariance():
    train = farout.load("toy", "train").limit(120)
    detector = SNGP(depth=10, factor=1, random_features=32, training={"epochs": 2}).fit(train, seed=3)
    fitted_on = [train.batch(range(len(train)))]
    images = fitted_on[0][:6]
    with torch.no_grad():
        passed = detector.network(images, needs=())
        scores = detector.score(images)
    features = passed.features.double()
    variance = torch.einsum("nd,de,ne->n", features, detector.statistics["covariance"], features)
    logits = passed.logits.double() / (1 + 25 * variance).sqrt()[:, None]
    classes = logits.shape[1]
    torch.testing.assert_close(scores, classes / (classes + logits.exp().sum(1)))
    again = SNGP(depth=10, factor=1, random_features=32, training={"epochs": 2}).fit(train, seed=3)
    assert torch.equal(again.score(images), scores)


@pytest.mark.slow
def test_the_full_preset_trains_a_step_and_scores():
    train = farout.load("toy", "train").limit(4)
    detector = SNGP(preset="full", training={"steps": 1, "batch": 2, "schedule": "constant", "milestones": ()})
    detector.fit(train, val=train)
    body = detector.network.module
    assert sum(one.numel() for one in body.body.parameters()) == 36_479_194 - 6_410  # WRN-28-10 without its last layer
    assert detector.score(train.batch(range(2))).isfinite().all()
