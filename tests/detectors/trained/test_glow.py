"""Glow: bijection, log-determinant, priors, initialization, and the detector."""

import math

import pytest
import torch
from torch import Tensor

import farout
from farout.core import ImageSet
from farout.detectors.trained.density import dequantize, sample_images
from farout.detectors.trained.glow import Glow
from farout.detectors.trained.glow.flow import Flow
from farout.detectors.trained.glow.layers import ActNorm, NormedConvolution, Split, ZeroConvolution
from farout.rng import generator
from farout.training import Context, Position, Recipe


def random_flow(channels: int = 1, side: int = 4, levels: int = 2, scale: float = 0.05) -> Flow:
    """Return a flow in float64 without weights at zero."""
    torch.manual_seed(0)
    flow = Flow(channels, side, levels, depth=2, width=6).double()
    flow.initialize(torch.rand(32, channels, side, side, dtype=torch.float64))
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter += scale * torch.randn_like(parameter)
    return flow


def reference_log_likelihood(flow: Flow, image: Tensor) -> Tensor:
    """Return ln p from the whole Jacobian, as a change of variables to a standard normal distribution."""

    def flat(pixels: Tensor) -> Tensor:
        latents, _ = flow(pixels.reshape(1, *flow.shape))
        return torch.cat([latent.flatten() for latent in latents])

    jacobian = torch.autograd.functional.jacobian(flat, image.flatten())
    normal = torch.distributions.Normal(0.0, 1.0).log_prob(flat(image)).sum()
    return normal + torch.linalg.slogdet(jacobian)[1] - image.numel() * math.log(256)


@pytest.mark.parametrize(("channels", "side", "levels"), [(1, 4, 2), (3, 4, 1), (1, 8, 3)])
def test_the_log_likelihood_follows_from_the_jacobian_of_autograd(channels, side, levels):
    flow = random_flow(channels, side, levels)
    images = torch.rand(2, channels, side, side, dtype=torch.float64)
    expected = torch.stack([reference_log_likelihood(flow, image) for image in images])
    torch.testing.assert_close(flow.log_likelihood(images), expected, rtol=1e-10, atol=1e-8)


@pytest.mark.parametrize(("dtype", "allowed"), [(torch.float64, 1e-8), (torch.float32, 1e-4)])
def test_it_inverts_in_both_directions(dtype, allowed):
    flow = random_flow(3, 32, 3).to(dtype)
    images = torch.rand(4, 3, 32, 32, dtype=dtype)
    latents, _ = flow(images)
    torch.testing.assert_close(flow.inverse(latents), images, rtol=0, atol=allowed)
    moved = [latent + 0.01 * torch.randn_like(latent) for latent in latents]
    for again, latent in zip(flow(flow.inverse(moved))[0], moved, strict=True):
        torch.testing.assert_close(again, latent, rtol=0, atol=100 * allowed)  # latents are larger than images


def test_samples_of_an_untrained_flow_are_its_normal_variables_turned_and_squashed():
    flow = Flow(1, 8, 2, depth=1, width=4)
    samples = flow.sample(500, generator(0))
    assert samples.shape == (500, 1, 8, 8)
    assert torch.equal(samples, flow.sample(500, generator(0)))
    logits = torch.logit(0.05 + 0.9 * samples)
    scales = 1 / torch.sigmoid(torch.tensor(2.0)) ** torch.tensor([0, 1, 2])  # each coupling divides half the channels
    assert 1 < logits.std() < scales[2]
    assert abs(logits.mean()) < 0.05


def test_the_prior_of_a_split_is_normal_with_the_mean_and_scale_of_its_convolution():
    split = Split(4).double()
    with torch.no_grad():
        for parameter in split.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator(0)))
    inputs = torch.randn(3, 4, 2, 2, dtype=torch.float64)
    first, latent, log_det = split(inputs)
    outputs = split.prior(inputs[:, :2])
    prior = torch.distributions.Normal(outputs[:, ::2], outputs[:, 1::2].exp())
    standard = torch.distributions.Normal(0.0, 1.0).log_prob(latent).flatten(1).sum(1)
    torch.testing.assert_close(standard + log_det, prior.log_prob(inputs[:, 2:]).flatten(1).sum(1))
    torch.testing.assert_close(split.inverse(first, latent), inputs)


def test_a_coupling_shifts_and_scales_the_second_half():
    layer = random_flow(3, 8, 1).levels[0][2]
    inputs = torch.randn(2, 12, 4, 4, dtype=torch.float64)
    outputs, log_det = layer(inputs)
    hidden = layer.net(inputs[:, :6])
    scale = torch.sigmoid(hidden[:, 1::2] + 2)
    torch.testing.assert_close(outputs[:, :6], inputs[:, :6])
    torch.testing.assert_close(outputs[:, 6:], (inputs[:, 6:] + hidden[:, ::2]) * scale)
    torch.testing.assert_close(log_det, scale.log().sum((1, 2, 3)))


def test_training_starts_from_norms_that_are_set_on_training_images_and_sees_noise():
    """Without initialization the steps, with a tiny rate, would leave shifts and scales at zero."""
    train, seen = training_images(40), list[Tensor]()
    detector = Glow(depth=1, width=4, training={"epochs": 2, "batch": 16, "lr": 1e-9})
    build = detector.density

    def spied(*size: int) -> Flow:
        flow = build(*size)
        flow.logit.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
        return flow

    detector.density = spied
    detector.fit(train, val=train.limit(3))
    assert [len(images) for images in seen].count(40) == 1, "all images initialize it, once"
    shift = detector.trained_density.levels[0][0].shift
    assert shift.abs().min() > 0.01
    whole = [bool(((images * 255).round() / 255 - images).abs().max() < 1e-6) for images in seen]
    assert not any(whole)


def test_at_most_256_images_initialize_it():
    context = Context(Position("", 0, 0, 1, 1), Recipe(epochs=1), {}, torch.device("cpu"), seed=0)
    assert len(sample_images(training_images(300), context)) == 256


def test_a_zero_convolution_is_scaled_by_exp_of_three_log_scales():
    layer = ZeroConvolution(2, 2)
    inputs = torch.randn(1, 2, 4, 4)
    assert not layer(inputs).any()
    torch.nn.init.ones_(layer.convolution.bias)
    torch.nn.init.constant_(layer.log_scale, 0.5)
    torch.testing.assert_close(layer(inputs), torch.full((1, 2, 4, 4), math.exp(1.5)))


def test_convolutions_of_couplings_start_with_the_authors_deviation():
    weight = NormedConvolution(64, 64, 3).convolution.weight
    assert weight.std().item() == pytest.approx(0.05, rel=0.02)


def test_initialization_standardizes_the_outputs_of_every_norm():
    flow = Flow(3, 8, 2, depth=2, width=8)
    images = torch.rand(64, 3, 8, 8)
    flow.initialize(images)
    outputs = []

    def check_convolution(layer: NormedConvolution, inputs: tuple[Tensor], output: Tensor) -> None:
        outputs.append(layer.norm(layer.convolution(*inputs))[0])
        torch.testing.assert_close(output, outputs[-1].relu())

    for module in flow.modules():
        if isinstance(module, NormedConvolution):
            module.register_forward_hook(check_convolution)
    for level in flow.levels:
        for norm in (layer for layer in level if isinstance(layer, ActNorm)):
            norm.register_forward_hook(lambda norm, inputs, output: outputs.append(output[0]))
    with torch.no_grad():
        flow(images)
    assert len(outputs) == 2 * 2 * 3
    for output in outputs:
        torch.testing.assert_close(output.mean((0, 2, 3)), torch.zeros(output.shape[1]), rtol=0, atol=1e-4)
        torch.testing.assert_close(output.std((0, 2, 3), correction=0), torch.ones(output.shape[1]), rtol=0, atol=1e-4)


def test_dequantized_images_keep_their_8_bit_values():
    levels = torch.arange(256) / 255
    noisy = dequantize(levels.expand(100, 256), generator(0))
    noise = noisy * 256 - torch.arange(256)
    assert -1e-4 < noise.min() < 0.01
    assert 0.99 < noise.max() < 1 + 1e-4
    assert 0.49 < noise.mean() < 0.51


def training_images(count: int = 48) -> ImageSet:
    return farout.load("toy", "train").limit(count)


def test_the_score_is_bits_per_dimension_and_falls_in_training():
    train = training_images()
    detector = Glow(depth=2, width=8, training={"epochs": 2, "batch": 16}).fit(train)
    images = train.batch(range(4))
    bits = -detector.modules["density"].log_likelihood(images) / (images[0].numel() * math.log(2))
    torch.testing.assert_close(detector.score(images), bits.double())
    figures = detector.history[0].figures
    assert figures[-1] < figures[0] < 9
    torch.testing.assert_close(detector.score(images)[2:3], detector.score(images[2:3]), rtol=1e-5, atol=1e-5)


def test_the_same_seed_gives_the_same_weights():
    train = training_images(40)
    first, second = (Glow(depth=1, width=4, training={"epochs": 1, "batch": 16}).fit(train, seed=3) for _ in range(2))
    assert first.digest == second.digest


def test_a_detector_loaded_from_its_state_gives_the_same_scores():
    train = training_images(40)
    detector, other = Glow(depth=1, width=4, training={"epochs": 1}).fit(train), Glow(depth=1, width=4)
    other.load_state_dict(detector.state_dict())
    images = train.batch(range(4))
    assert torch.equal(detector.score(images), other.score(images))


@pytest.mark.parametrize(("channels", "side", "levels"), [(1, 28, 2), (3, 32, 3), (1, 64, 3)])
def test_sides_that_cannot_be_halved_often_have_fewer_levels(channels, side, levels):
    flow = Glow(depth=1, width=4).density(channels, side)
    assert len(flow.levels) == levels
    assert flow.log_likelihood(torch.rand(2, channels, side, side)).isfinite().all()


def test_the_full_preset_has_the_papers_size_trains_and_scores():
    images = ImageSet.from_arrays(torch.rand(2, 3, 32, 32, generator=generator(0)).numpy())
    detector = Glow(preset="full", training={"steps": 1, "batch": 2}).fit(images, val=images)
    assert sum(one.numel() for one in detector.modules["density"].parameters()) == 44_052_720
    assert detector.score(images.batch([0])).isfinite().all()
