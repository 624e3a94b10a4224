"""BigGAN's layers and sizes against definitions and closed forms."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from small_gans import parameters
from torch import Tensor, nn
from torch.nn.utils import parametrize

from farout.generators.biggan.layers import Attention, ConditionalNorm, SpectralNorm, orthogonal_penalty, spectral
from farout.generators.biggan.networks import (
    DiscriminatorBlock,
    DiscriminatorNetwork,
    GeneratorBlock,
    GeneratorNetwork,
    Shape,
)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# Sizes


@pytest.mark.parametrize(
    ("shape", "latent", "shared", "expected"),
    [
        (Shape(32, 3, 10, 64, 0, 1e-8), 128, 0, (4_304_387, 4_207_361)),
        (Shape(128, 3, 1000, 96, 64, 1e-6), 120, 128, (70_433_988, 87_982_370)),
    ],
    ids=["cifar", "imagenet"],
)
def test_parameters_are_those_of_the_scripts(shape: Shape, latent: int, shared: int, expected: tuple[int, int]) -> None:
    with torch.device("meta"):
        generator, discriminator = GeneratorNetwork(shape, latent, shared, 1e-5), DiscriminatorNetwork(shape)
    assert (parameters(generator), parameters(discriminator)) == expected


def test_spectral_norm_is_on_all_layers_but_the_generators_embeddings() -> None:
    shape = Shape(64, 3, 5, 2, 32, 1e-6)
    generator, discriminator = GeneratorNetwork(shape, 10, 4, 1e-5), DiscriminatorNetwork(shape)
    kinds = (nn.Conv2d, nn.Linear, nn.Embedding)

    def plain(module: nn.Module) -> list[nn.Module]:
        return [one for one in module.modules() if isinstance(one, kinds) and not parametrize.is_parametrized(one)]

    assert plain(generator) == [generator.embedding]
    assert plain(discriminator) == []
    small = GeneratorNetwork(Shape(16, 1, 5, 2, 0, 1e-8), 8, 0, 1e-5)
    assert {type(one) for one in plain(small)} == {nn.Embedding}
    assert len(plain(small)) == 8  # gain and bias of two norms of two blocks


# Layers


def test_spectral_norm_converges_to_the_largest_singular_value() -> None:
    torch.manual_seed(0)
    layer = spectral(nn.Conv2d(4, 6, 3).double(), 1e-12)
    original = layer.parametrizations.weight.original  # type: ignore[union-attr]
    for _ in range(300):
        layer.weight  # noqa: B018 - every use is one power iteration
    largest = torch.linalg.svdvals(original.flatten(1))[0]
    torch.testing.assert_close(layer.weight, original / largest)


def test_spectral_norm_makes_one_iteration_and_stores_it_in_training_only() -> None:
    weight, norm = draw(5, 7), SpectralNorm(5, 1e-12).double()
    start = norm.u.clone()
    v = F.normalize(weight.T @ start, dim=0)
    u = F.normalize(weight @ v, dim=0)
    norm.eval()
    torch.testing.assert_close(norm(weight), weight / (u @ weight @ v))
    assert torch.equal(norm.u, start)
    norm.train()(weight)
    torch.testing.assert_close(norm.u, u)
    norm.u.mul_(7)  # an average of unit vectors has another norm
    torch.testing.assert_close(norm.eval()(weight), norm(weight))
    scaled = norm(weight)
    norm.u.div_(7)
    torch.testing.assert_close(norm(weight), scaled)


def test_the_gradient_flows_through_the_spectral_norm() -> None:
    weight, norm = draw(3, 4).requires_grad_(), SpectralNorm(3, 1e-12).double().eval()
    norm.u.copy_(torch.linalg.svd(weight.detach())[0][:, 0])
    target = draw(3, 4, seed=1)
    (ours,) = torch.autograd.grad((norm(weight) * target).sum(), weight)
    exact = (weight / torch.linalg.svdvals(weight)[0] * target).sum()
    torch.testing.assert_close(ours, torch.autograd.grad(exact, weight)[0])


def test_conditional_norm() -> None:
    gain, bias = nn.Embedding(3, 4).double(), nn.Embedding(3, 4).double()
    norm, x, labels = ConditionalNorm(4, gain, bias, 1e-5).double(), draw(6, 4, 2, 2), torch.tensor([0, 1, 2, 0, 1, 2])
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)
    standardized = (x - mean[:, None, None]) / (variance + 1e-5).sqrt()[:, None, None]
    for image, label in enumerate(labels):
        expected = (1 + gain.weight[label])[:, None, None] * standardized[image] + bias.weight[label][:, None, None]
        torch.testing.assert_close(norm(x, labels)[image], expected)


def test_attention_is_a_weighted_sum_of_pooled_values() -> None:
    torch.manual_seed(0)
    layer, x = Attention(16, 1e-8).double().eval(), draw(2, 16, 4, 4)
    assert torch.equal(layer(x), x)  # the strength starts at 0
    nn.init.constant_(layer.strength, 0.5)
    query, key, value = layer.query(x), F.max_pool2d(layer.key(x), 2), F.max_pool2d(layer.value(x), 2)
    attended = torch.zeros(2, 8, 4, 4, dtype=torch.float64)
    for image in range(2):
        for row in range(4):
            for column in range(4):
                similar = torch.einsum("chw,c->hw", key[image], query[image, :, row, column])
                weights = similar.flatten().softmax(0).reshape(2, 2)
                attended[image, :, row, column] = (value[image] * weights).sum((1, 2))
    torch.testing.assert_close(layer(x), x + 0.5 * layer.out(attended))


def test_the_orthogonal_penalty_and_its_gradient() -> None:
    weights = [draw(3, 5).requires_grad_(), draw(4, 2, 3, 3, seed=1).requires_grad_()]
    penalty = orthogonal_penalty(weights)
    expected = 0.0
    for weight in weights:
        rows = weight.detach().flatten(1)
        expected += sum(float(a @ b) ** 2 for i, a in enumerate(rows) for j, b in enumerate(rows) if i != j)
    assert penalty.item() == pytest.approx(expected)
    for weight, gradient in zip(weights, torch.autograd.grad(penalty, weights), strict=True):
        rows = weight.detach().flatten(1)
        off = (rows @ rows.T) * (1 - torch.eye(len(rows), dtype=torch.float64))
        torch.testing.assert_close(gradient.flatten(1), 4 * off @ rows)
    assert orthogonal_penalty([torch.eye(4) * 3]).item() == 0


# Blocks and heads


class Unconditional(nn.Module):
    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        return x - 0.1


def test_a_generator_block_is_the_references() -> None:
    torch.manual_seed(0)
    block, x = GeneratorBlock(3, 5, lambda width: Unconditional(), 1e-8).double().eval(), draw(2, 3, 4, 4)
    out = F.relu(x - 0.1).repeat_interleave(2, 2).repeat_interleave(2, 3)
    out = block.second(F.relu(block.first(out) - 0.1))
    shortcut = block.shortcut(x.repeat_interleave(2, 2).repeat_interleave(2, 3))
    torch.testing.assert_close(block(x, torch.zeros(2)), out + shortcut)


@pytest.mark.parametrize(("inputs", "active", "down"), [(3, False, True), (5, True, True), (5, True, False)])
def test_a_discriminator_block_is_the_references(inputs: int, active: bool, down: bool) -> None:
    torch.manual_seed(0)
    block = DiscriminatorBlock(inputs, 5, active=active, down=down, eps=1e-8).double().eval()
    x = draw(2, inputs, 4, 4)
    before = x.clone()
    out = block.second(F.relu(block.first(F.relu(x) if active else x)))
    if down:
        out = F.avg_pool2d(out, 2) + F.avg_pool2d(block.shortcut(x), 2)
    else:
        assert isinstance(block.shortcut, nn.Identity)
        out = out + x
    torch.testing.assert_close(block(x), out)
    assert torch.equal(x, before)  # the first ReLU is not in place


def test_the_discriminator_sums_features_and_projects_on_the_class() -> None:
    torch.manual_seed(0)
    network = DiscriminatorNetwork(Shape(16, 1, 3, 4, 0, 1e-8)).double().eval()
    images, labels = draw(4, 1, 16, 16), torch.tensor([0, 1, 2, 1])
    features = F.relu(network.blocks(images)).flatten(2).sum(2)
    weight, bias = network.linear.weight, network.linear.bias
    expected = [
        f @ weight[0] + bias[0] + f @ network.embedding.weight[y] for f, y in zip(features, labels, strict=True)
    ]
    torch.testing.assert_close(network(images, labels), torch.stack(expected))


def test_chunks_of_the_latent_reach_their_blocks() -> None:
    torch.manual_seed(0)
    network = GeneratorNetwork(Shape(32, 1, 3, 4, 0, 1e-8), 8, 6, 1e-5).eval()
    z, labels = torch.randn(1, 8), torch.tensor([1])
    start, *conditions = network._conditions(z, labels)
    assert torch.equal(start, z[:, :2])
    for level, condition in enumerate(conditions, start=1):
        assert torch.equal(condition, torch.cat([network.embedding(labels), z[:, 2 * level : 2 * level + 2]], 1))
    with pytest.raises(
        ValueError, match=r"expected a latent size that 4 chunks divide.*got latent=10; use 8 or shared=0"
    ):
        GeneratorNetwork(Shape(32, 1, 3, 4, 0, 1e-8), 10, 6, 1e-5)
