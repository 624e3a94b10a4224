"""PixelCNN++: normalization, causality, the mixture against a loop, and the detector."""

import math

import pytest
import torch
from torch import Tensor

import farout
from farout.core import ImageSet
from farout.detectors.trained.detector import Inputs
from farout.detectors.trained.pixelcnn import PixelCNN
from farout.detectors.trained.pixelcnn.mixture import (
    Mixture,
    channel_log_probabilities,
    count_outputs,
    log_probabilities,
)
from farout.detectors.trained.pixelcnn.network import PixelNetwork
from farout.rng import generator

LEVELS = 2 * torch.arange(256, dtype=torch.float64) / 255 - 1


def random_mixture(channels: int, count: int = 1, side: int = 3, mixtures: int = 4) -> Mixture:
    shape = (count, count_outputs(channels, mixtures), side, side)
    return Mixture.split(2 * torch.randn(shape, generator=generator(0), dtype=torch.float64) - 1, channels)


def random_network(channels: int = 3) -> PixelNetwork:
    torch.manual_seed(0)
    return PixelNetwork(channels, blocks=1, width=6, mixtures=3).double().eval()


def random_images(*shape: int) -> Tensor:
    return torch.randint(0, 256, shape, generator=generator(1)).double() / 255


# The mixture


@pytest.mark.parametrize("channels", [1, 3])
def test_every_component_sums_to_one_over_the_values_of_a_channel(channels):
    mixture = random_mixture(channels)
    others = 2 * random_images(1, channels, 3, 3) - 1
    for channel in range(channels):
        images = others.repeat(256, 1, 1, 1)
        images[:, channel] = LEVELS[:, None, None]
        same = Mixture(*(None if one is None else one.expand(256, *one.shape[1:]) for one in mixture))
        sums = channel_log_probabilities(images, same)[:, channel].exp().sum(0)
        torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-10)


def test_components_stay_normalized_at_extreme_scales_and_means():
    for log_scale in (-20.0, -7.0, 5.0, 15.0):
        for mean in (-3.0, 0.001, 3.0):
            means = torch.full((256, 1, 1, 1, 1), mean, dtype=torch.float64)
            scales = torch.full_like(means, log_scale).clamp(min=-7)
            mixture = Mixture(torch.zeros(256, 1, 1, 1), means, scales, None)
            log_values = log_probabilities(LEVELS[:, None, None, None], mixture)
            assert log_values.isfinite().all()
            assert log_values.exp().sum().item() == pytest.approx(1, abs=1e-9)


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value > -700 else 0.0


def reference_pixel(pixel: list[float], outputs: list[float], mixtures: int) -> float:
    """Return ln p of an RGB pixel as the authors write it, one component and one channel at a time."""
    per_channel = [outputs[mixtures + 3 * mixtures * c : mixtures + 3 * mixtures * (c + 1)] for c in range(3)]
    total = sum(math.exp(logit) for logit in outputs[:mixtures])
    probability = 0.0
    for k in range(mixtures):
        mean = [values[k] for values in per_channel]
        scale = [math.exp(max(values[mixtures + k], -7.0)) for values in per_channel]
        c0, c1, c2 = (math.tanh(values[2 * mixtures + k]) for values in per_channel)
        mean[1] += c0 * pixel[0]
        mean[2] += c1 * pixel[0] + c2 * pixel[1]
        product = math.exp(outputs[k]) / total
        for x, m, s in zip(pixel, mean, scale, strict=True):
            upper = sigmoid((x + 1 / 255 - m) / s) if x < 0.999 else 1.0
            lower = sigmoid((x - 1 / 255 - m) / s) if x > -0.999 else 0.0
            product *= upper - lower
        probability += product
    return math.log(probability)


def test_pixels_of_three_channels_agree_with_a_loop():
    outputs = torch.randn(2, count_outputs(3, 4), 3, 3, generator=generator(2), dtype=torch.float64)
    images = 2 * random_images(2, 3, 3, 3) - 1
    images[0, :, 0, 0], images[1, :, 0, 0] = -1.0, 1.0
    ours = log_probabilities(images, Mixture.split(outputs, 3))
    for n, i, j in torch.cartesian_prod(*map(torch.arange, (2, 3, 3))).tolist():
        expected = reference_pixel(images[n, :, i, j].tolist(), outputs[n, :, i, j].tolist(), 4)
        assert ours[n, i, j].item() == pytest.approx(expected, rel=1e-8)


def test_a_channel_depends_on_the_channels_before_it_only():
    mixture = random_mixture(3, side=1)
    jacobian = torch.autograd.functional.jacobian(
        lambda images: channel_log_probabilities(images, mixture).sum(2).flatten(), 2 * random_images(1, 3, 1, 1) - 1
    ).reshape(3, 3)
    assert torch.equal(jacobian != 0, torch.ones(3, 3).tril().bool())


# The network


def test_no_pixel_moves_with_a_later_one_and_its_neighbors_before_it_matter():
    side = 8
    network, images = random_network(1), random_images(1, 1, side, side)
    jacobian = torch.autograd.functional.jacobian(lambda x: network.pixel_log_likelihood(x).flatten(), images)
    moves = jacobian.reshape(side**2, side**2) != 0
    assert not moves.triu(1).any()
    rows, columns = torch.arange(side**2) // side, torch.arange(side**2) % side
    near = (rows[:, None] - rows <= 1) & ((columns[:, None] - columns).abs() <= 1)
    assert moves[near & torch.ones(side**2, side**2).tril().bool()].all()


def test_the_mixture_of_a_pixel_does_not_see_the_pixel():
    network, images = random_network(3), random_images(1, 3, 8, 8)
    changed = images.clone()
    changed[0, :, 4, 3] = 1 - changed[0, :, 4, 3]
    before, after = (torch.cat([part.flatten(1, -3) for part in network(2 * x - 1)], 1) for x in (images, changed))
    moved = (before != after).any(1)[0].flatten()
    assert not moved[: 4 * 8 + 4].any()
    assert moved[4 * 8 + 4 :].any()


def test_the_probabilities_of_a_pixel_sum_to_one_in_the_network():
    network, image = random_network(1), random_images(1, 1, 8, 8)
    for row, column in ((0, 0), (3, 5)):
        images = image.repeat(256, 1, 1, 1)
        images[:, 0, row, column] = torch.arange(256) / 255
        total = network.pixel_log_likelihood(images)[:, row, column].exp().sum().item()
        assert total == pytest.approx(1, abs=1e-9)


# The detector


def training_images(count: int = 24) -> ImageSet:
    return farout.load("toy", "train").limit(count)


def test_the_score_is_bits_per_dimension_and_falls_in_training():
    train = training_images()
    detector = PixelCNN(width=8, mixtures=3, training={"epochs": 2, "batch": 8}).fit(train)
    images = train.batch(range(4))
    bits = -detector.modules["density"].log_likelihood(images) / (images[0].numel() * math.log(2))
    torch.testing.assert_close(detector.score(images), bits.double())
    figures = detector.history[0].figures
    assert figures[-1] < figures[0] < 10
    torch.testing.assert_close(detector.score(images)[2:3], detector.score(images[2:3]), rtol=1e-5, atol=1e-5)


def test_the_weights_of_the_epoch_with_the_fewest_validation_bits_are_kept():
    """The more it learns that all images are black, the less likely is noise."""
    black, noise = ImageSet.from_arrays(torch.zeros(16, 1, 28, 28).numpy()), random_images(4, 1, 28, 28).float()
    training = {"epochs": 3, "batch": 8, "lr": 0.01}
    detector = PixelCNN(width=4, mixtures=2, training=training).fit(black, val=ImageSet.from_arrays(noise.numpy()))
    figures = detector.history[0].figures
    assert min(figures) < figures[-1] - 0.1
    assert detector.score(noise).mean().item() == pytest.approx(min(figures), rel=1e-6)


def test_the_same_seed_gives_the_same_weights_and_a_state_the_same_scores():
    train, settings = training_images(16), {"width": 4, "mixtures": 2}
    first, second = (PixelCNN(**settings, training={"epochs": 1, "batch": 8}).fit(train, seed=3) for _ in range(2))
    assert first.digest == second.digest
    other = PixelCNN(**settings)
    other.load_state_dict(first.state_dict())
    assert torch.equal(first.score(train.batch([0, 1])), other.score(train.batch([0, 1])))


def test_the_published_range_of_pixels_is_a_switch():
    images = torch.rand(2, 3, 32, 32)
    right, published = (PixelCNN(width=4, mixtures=2, published_range=switch) for switch in (False, True))
    right.inputs = published.inputs = Inputs(3, 32, 0)
    right.modules = published.modules = {name: one.eval() for name, one in right.build(right.inputs).items()}
    network = right.modules["density"]
    nats = log_probabilities(images, network(images)).sum((1, 2))
    torch.testing.assert_close(published.score(images), (-nats / (3072 * math.log(2))).double(), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(right.score(images), published.score(images))


@pytest.mark.parametrize(("channels", "side"), [(1, 28), (3, 64)])
def test_other_sizes_of_images_have_a_likelihood(channels, side):
    network = PixelCNN(width=4, mixtures=2).density(channels, side)
    assert network.pixel_log_likelihood(torch.rand(2, channels, side, side)).shape == (2, side, side)


def test_the_full_preset_has_the_papers_size_trains_and_scores():
    images = ImageSet.from_arrays(torch.rand(2, 3, 32, 32, generator=generator(0)).numpy())
    detector = PixelCNN(preset="full", training={"steps": 1, "batch": 2}).fit(images, val=images)
    assert sum(one.numel() for one in detector.modules["density"].parameters()) == 13_440_840
    assert detector.score(images.batch([0])).isfinite().all()
