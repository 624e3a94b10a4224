"""StyleGAN2's layers, penalties and sizes against slow references and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.signal import convolve2d
from small_gans import parameters
from torch import Tensor, nn

from farout.generators.stylegan2.discriminator import Block, Discriminator
from farout.generators.stylegan2.fir import blur, downsample, upsample
from farout.generators.stylegan2.layers import Convolution, Linear, minibatch_deviation, modulated_convolution
from farout.generators.stylegan2.penalties import path_lengths, r1_penalty
from farout.generators.stylegan2.synthesis import StyleNetwork, widths

FILTER = np.outer([1, 3, 3, 1], [1, 3, 3, 1]) / 64


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def filtered(image: np.ndarray, before: int, after: int) -> np.ndarray:
    """Explicit convolution of one map, padded with zeros."""
    return convolve2d(np.pad(image, (before, after)), FILTER, mode="valid")


def with_zeros(image: np.ndarray) -> np.ndarray:
    """Zeros between the pixels, and after the last one."""
    out = np.zeros((2 * image.shape[0], 2 * image.shape[1]))
    out[::2, ::2] = image
    return out


# Sizes


def test_parameters_are_those_of_the_public_configuration() -> None:
    with torch.device("meta"):
        generator = StyleNetwork(32, 3, latent=64, style=512, width=512)
        discriminator = Discriminator(32, 3, width=512, style=512, residual=False, group=32)
    assert (parameters(generator), parameters(discriminator)) == (19_718_163, 20_720_641)
    with torch.device("meta"):
        generator = StyleNetwork(32, 3, latent=512, style=512, width=512, classes=10)
        discriminator = Discriminator(32, 3, width=512, style=512, residual=False, group=32, classes=10)
    assert (parameters(generator), parameters(discriminator)) == (20_215_315, 23_089_664)


def test_widths_and_styles_by_side() -> None:
    assert widths(32, 512) == {4: 512, 8: 512, 16: 512, 32: 512}
    assert widths(128, 512) == {4: 512, 8: 512, 16: 512, 32: 512, 64: 256, 128: 128}
    with torch.device("meta"):
        styles = [StyleNetwork(side, 1, latent=8, style=8, width=8).synthesis.styles for side in (16, 32, 64, 128)]
    assert styles == [6, 8, 10, 12]


# Filters


def test_filters_are_explicit_convolutions_with_the_published_padding() -> None:
    image = draw(1, 2, 6, 6)
    maps = image[0].numpy()
    up = np.stack([4 * filtered(with_zeros(one), 2, 1) for one in maps])
    down = np.stack([filtered(one, 1, 1)[::2, ::2] for one in maps])
    np.testing.assert_allclose(upsample(image)[0].numpy(), up, atol=1e-12)
    np.testing.assert_allclose(downsample(image)[0].numpy(), down, atol=1e-12)
    np.testing.assert_allclose(blur(image, 1)[0].numpy(), np.stack([filtered(one, 1, 1) for one in maps]), atol=1e-12)


def test_a_flat_image_stays_flat_inside() -> None:
    flat = torch.full((1, 3, 8, 8), 0.7)
    torch.testing.assert_close(upsample(flat)[:, :, 2:-2, 2:-2], torch.full((1, 3, 12, 12), 0.7))
    torch.testing.assert_close(downsample(flat)[:, :, 1:-1, 1:-1], torch.full((1, 3, 2, 2), 0.7))


# Modulation


def slow_modulated(x: Tensor, weight: Tensor, style: Tensor, up: bool, demodulate: bool) -> Tensor:
    """One image at a time, with its own weights; going up, zeros, a true convolution and the filter."""
    out = []
    for image, scales in zip(x, style, strict=True):
        own = weight * scales[None, :, None, None]
        if demodulate:
            own = torch.stack([one / math.sqrt(one.square().sum() + 1e-8) for one in own])
        if not up:
            out.append(F.conv2d(image[None], own, padding=weight.shape[2] // 2)[0])
            continue
        spread = np.stack([with_zeros(one)[:-1, :-1] for one in image.numpy()])
        maps = [
            sum(convolve2d(one, kernel) for one, kernel in zip(spread, kernels, strict=True)) for kernels in own.numpy()
        ]
        out.append(torch.tensor(np.stack([4 * filtered(one, 1, 1) for one in maps])))
    return torch.stack(out)


@pytest.mark.parametrize("up", [False, True])
@pytest.mark.parametrize("demodulate", [False, True])
def test_modulated_convolution_equals_one_convolution_per_image(up: bool, demodulate: bool) -> None:
    x, weight, style = draw(3, 4, 5, 5), draw(6, 4, 3, 3, seed=1), draw(3, 4, seed=2)
    out = modulated_convolution(x, weight, style, up=up, demodulate=demodulate)
    assert out.shape == ((3, 6, 10, 10) if up else (3, 6, 5, 5))
    torch.testing.assert_close(out, slow_modulated(x, weight, style, up, demodulate))


def test_modulated_convolution_equals_the_grouped_form_with_its_gradients() -> None:
    x, weight, style = (
        one.requires_grad_() for one in (draw(3, 4, 5, 5), draw(6, 4, 3, 3, seed=1), draw(3, 4, seed=2))
    )
    own = weight[None] * style[:, None, :, None, None]
    own = own * (own.square().sum((2, 3, 4), keepdim=True) + 1e-8).rsqrt()
    grouped = F.conv2d(x.reshape(1, 12, 5, 5), own.reshape(18, 4, 3, 3), padding=1, groups=3).reshape(3, 6, 5, 5)
    ours = modulated_convolution(x, weight, style, demodulate=True)
    torch.testing.assert_close(ours, grouped)
    target = draw(3, 6, 5, 5, seed=3)
    expected = torch.autograd.grad((grouped * target).sum(), (x, weight, style))
    torch.testing.assert_close(torch.autograd.grad((ours * target).sum(), (x, weight, style)), expected)


# Equalized learning rate


def test_linear_scales_stored_weights_when_they_are_used() -> None:
    torch.manual_seed(0)
    layer = Linear(64, 512, active=True, bias=0.5, rate=0.01).double()
    assert layer.weight.std().item() == pytest.approx(100, rel=0.02)
    x = draw(5, 64)
    plain = x @ (layer.weight * 0.01 / 8).T + 0.5 * 0.01
    torch.testing.assert_close(layer(x), torch.where(plain > 0, plain, 0.2 * plain) * math.sqrt(2))


def test_convolutions_of_the_discriminator() -> None:
    torch.manual_seed(0)
    x = draw(2, 3, 8, 8)
    layer = Convolution(3, 4, 3, down=True).double()
    nn.init.normal_(layer.bias)
    assert layer.weight.std().item() == pytest.approx(1, rel=0.2)
    blurred = torch.tensor(np.stack([[filtered(one, 2, 2) for one in image] for image in x.numpy()]))
    plain = F.conv2d(blurred, layer.weight / math.sqrt(27), layer.bias)[:, :, ::2, ::2]
    torch.testing.assert_close(layer(x, 0.5), F.leaky_relu(plain, 0.2) * math.sqrt(2) * 0.5)
    shortcut = Convolution(3, 4, 1, down=True, plain=True).double()
    expected = torch.einsum("oi,bihw->bohw", shortcut.weight[:, :, 0, 0], downsample(x)) / math.sqrt(3)
    torch.testing.assert_close(shortcut(x, 0.5), expected * 0.5)


# Minibatch standard deviation


@pytest.mark.parametrize(("group", "size"), [(2, 2), (4, 3), (32, 6)])
def test_minibatch_deviation(group: int, size: int) -> None:
    x = draw(6, 3, 2, 2)
    out = minibatch_deviation(x, group)
    torch.testing.assert_close(out[:, :3], x)
    for image in range(6):
        members = x[[other for other in range(6) if other % (6 // size) == image % (6 // size)]].numpy()
        assert len(members) == size
        expected = np.sqrt(members.var(0) + 1e-8).mean()
        np.testing.assert_allclose(out[image, 3].numpy(), np.full((2, 2), expected), rtol=1e-12)


# Penalties


def test_r1_of_a_quadratic_discriminator() -> None:
    x, weight = draw(5, 2, 3, 3), draw(18, 18, seed=1).requires_grad_()

    def discriminator(images: Tensor) -> Tensor:
        flat = images.flatten(1)
        return (flat @ weight * flat).sum(1)

    gradients = x.flatten(1) @ (weight + weight.T)
    penalty = r1_penalty(discriminator, x)
    torch.testing.assert_close(penalty, gradients.square().sum(1).mean() / 2)
    expected = torch.autograd.grad(gradients.square().sum(1).mean() / 2, weight)
    torch.testing.assert_close(torch.autograd.grad(penalty, weight), expected)


def test_path_lengths_of_a_linear_generator() -> None:
    styles, noise = draw(4, 3, 5).requires_grad_(), draw(4, 2, 6, 6, seed=1)
    jacobian = draw(72, 15, seed=2).requires_grad_()
    lengths = path_lengths((styles.flatten(1) @ jacobian.T).unflatten(1, (2, 6, 6)), styles, noise)
    projected = (noise.flatten(1) @ jacobian / 6).unflatten(1, (3, 5))
    torch.testing.assert_close(lengths, projected.square().sum(2).mean(1).sqrt())
    assert torch.autograd.grad(lengths.sum(), jacobian)[0].abs().sum() > 0


# The networks


@pytest.fixture
def network() -> StyleNetwork:
    torch.manual_seed(0)
    return StyleNetwork(16, 3, latent=8, style=16, width=8)


def test_only_the_direction_of_a_latent_matters(network: StyleNetwork) -> None:
    network.eval()
    z = draw(3, 8).float()
    torch.testing.assert_close(network.styles(z), network.styles(5 * z))
    assert not torch.allclose(network.styles(z), network.styles(-z))


def test_the_mean_of_styles_follows_training_only(network: StyleNetwork) -> None:
    z = draw(50, 8).float()
    mapped = network.mapping(z).mean(0)
    network.styles(z)
    torch.testing.assert_close(network.mean, 0.002 * mapped)
    network.eval().styles(z)
    torch.testing.assert_close(network.mean, 0.002 * mapped)


def test_truncation_pulls_the_first_styles_to_the_mean(network: StyleNetwork) -> None:
    nn.init.normal_(network.mean)
    styles = network.eval().styles(draw(2, 8).float())
    pulled = network.truncated(styles, 0.25, levels=4)
    torch.testing.assert_close(pulled[:, :4], 0.75 * network.mean + 0.25 * styles[:, :4])
    assert torch.equal(pulled[:, 4:], styles[:, 4:])
    torch.testing.assert_close(network.truncated(styles, 0.0), network.mean.expand(2, 6, 16))


def test_noise_starts_without_effect_and_can_be_fixed(network: StyleNetwork) -> None:
    styles = network.eval().styles(draw(2, 8).float())
    still = network.synthesis(styles, fixed=True)
    torch.testing.assert_close(network.synthesis(styles, fixed=False), still)
    for convolution in network.synthesis.convolutions:
        nn.init.ones_(convolution.strength)
    assert torch.equal(network.synthesis(styles, fixed=True), network.synthesis(styles, fixed=True))
    assert not torch.allclose(network.synthesis(styles, fixed=False), network.synthesis(styles, fixed=False))


def test_both_branches_of_a_residual_block_count_half() -> None:
    torch.manual_seed(0)
    block, x = Block(4, 6, residual=True), torch.randn(2, 4, 8, 8)
    assert block.shortcut is not None
    expected = (block.second(block.first(x)) + block.shortcut(x)) * math.sqrt(0.5)
    torch.testing.assert_close(block(x), expected)


def test_a_conditional_pair_depends_on_the_class() -> None:
    torch.manual_seed(0)
    network = StyleNetwork(16, 1, latent=8, style=16, width=8, classes=3)
    discriminator = Discriminator(16, 1, width=8, style=16, residual=False, group=2, classes=3)
    z, labels = draw(1, 8).float().repeat(3, 1), torch.tensor([0, 1, 1])
    images = network.eval()(z, labels)
    torch.testing.assert_close(images[1], images[2])
    assert not torch.allclose(images[0], images[1])
    same = images[:1].repeat(3, 1, 1, 1)
    logits = discriminator(same, labels)
    torch.testing.assert_close(logits[1], logits[2])
    assert not torch.allclose(logits[0], logits[1])
