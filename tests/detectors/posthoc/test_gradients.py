"""odin against plain autograd on a small network, gradnorm's closed form against the gradient itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from farout import Network, Panel
from farout.core import Activations
from farout.detectors import MSP, ODIN, GradNorm

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def pixels(total: int, seed: int = 0) -> Tensor:
    return torch.rand(total, 3, 8, 8, generator=torch.Generator().manual_seed(seed))


def module(classes: int = 4, width: int = 8) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
            nn.Linear(32, width), nn.ReLU(), nn.Linear(width, classes),
        )  # fmt: skip


def network(**options: Any) -> Network:
    wrapped = Network(module(**options), mean=MEAN, std=STD)
    wrapped.module[-1].weight.data *= 8  # logits that differ
    return wrapped


def slow_odin(images: Tensor, temperature: float, epsilon: float, at_zero: float = 0.0) -> list[float]:
    """Image by image and in float64, with the normalizer written out and the cross-entropy as it is."""
    classifier = network().module.double().eval()
    mean, std = (torch.tensor(v).double().view(1, 3, 1, 1) for v in (MEAN, STD))
    scores = []
    for image in images.double():
        x = image[None].clone().requires_grad_()
        logits = classifier((x - mean) / std)
        F.cross_entropy(logits / temperature, logits.argmax(1)).backward()
        assert x.grad is not None
        signs = torch.where(x.grad == 0, at_zero, x.grad.sign())
        moved = (x.detach() - epsilon * signs - mean) / std
        scores.append(1 - (classifier(moved) / temperature).softmax(1).max().item())
    return scores


def odin(images: Tensor, net: Network | None = None, **params: Any) -> np.ndarray:
    return Panel(net or network(), {"odin": ODIN(**params)}).score(images)["odin"]


@pytest.mark.parametrize(("temperature", "epsilon"), [(1000.0, 0.0014), (1000.0, 0.05), (1.0, 0.01), (10.0, 0.0)])
def test_odin_is_plain_autograd_through_the_normalizer(temperature: float, epsilon: float) -> None:
    images = pixels(20)
    scores = odin(images, temperature=temperature, epsilon=epsilon)
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, slow_odin(images, temperature, epsilon), rtol=1e-5 if temperature < 2 else 1e-7)


def test_without_a_step_odin_is_the_softmax_at_its_temperature() -> None:
    net, images = network(), pixels(9)
    with torch.no_grad():
        logits = net(images).logits
    expected = MSP().score(Activations(logits.double() / 50, logits)).numpy()
    np.testing.assert_allclose(odin(images, net, epsilon=0.0, temperature=50.0), expected, rtol=1e-12)


def test_odin_steps_towards_the_predicted_class_by_epsilon_and_past_the_edge() -> None:
    net, images = network(), pixels(9).round()
    moved = ODIN(temperature=1.0, epsilon=0.002).perturbed(net, images)
    steps = ((moved - images) / 0.002).round()
    torch.testing.assert_close(moved, images + 0.002 * steps)
    assert set(steps.unique().tolist()) <= {-1.0, 0.0, 1.0}
    assert (moved < 0).any(), "the paper does not clip"
    assert (moved > 1).any()
    with torch.no_grad():
        before, after = (net(x).logits.double() for x in (images, moved))
    best = before.argmax(1, keepdim=True)
    assert (after.log_softmax(1).gather(1, best) > before.log_softmax(1).gather(1, best)).all()


def test_the_variants_differ_where_there_is_no_gradient() -> None:
    class Center(nn.Module):
        """Reads the inner pixels only."""

        def __init__(self) -> None:
            super().__init__()
            self.body = module()

        def forward(self, images: Tensor) -> Tensor:
            logits: Tensor = self.body(images[:, :, 2:-2, 2:-2])
            return logits

    net, images = Network(Center(), mean=MEAN, std=STD, side=None, head="body.7"), pixels(3)
    paper, openood = (ODIN(variant=variant).perturbed(net, images) for variant in ("paper", "openood"))  # type: ignore[arg-type]
    assert torch.equal(paper[:, :, 0], images[:, :, 0])
    torch.testing.assert_close(openood[:, :, 0], images[:, :, 0] - 0.0014)
    inner = (..., slice(2, -2), slice(2, -2))
    moved = paper[inner] != images[inner]
    assert torch.equal(paper[inner][moved], openood[inner][moved])


def test_odin_does_not_saturate_at_low_temperatures() -> None:
    """A float32 cross-entropy of these logits is 0, with a gradient of 0."""
    net, images = network(), pixels(6)
    net.module[-1].weight.data *= 500
    assert (ODIN(temperature=1.0).perturbed(net, images) != images).float().mean() > 0.9


def test_odin_leaves_the_network_as_it_was() -> None:
    net, images = network(), pixels(5)
    net.train()
    net.module[0].weight.requires_grad_(False)
    net.module[-1].bias.grad = torch.ones(4)
    before = {key: value.clone() for key, value in net.state_dict().items()}
    for scores in (
        odin(images, net),
        Panel(net, ["odin"])["odin"].score(images).numpy(),
        torch.inference_mode()(odin)(images.clone(), net),
        torch.no_grad()(odin)(images, net),
    ):
        np.testing.assert_array_equal(scores, odin(images, net))
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    assert [p.requires_grad for p in net.parameters()] == [False] + [True] * 7
    assert [p.grad is None for p in net.parameters()] == [True] * 7 + [False]
    assert net.module[-1].bias.grad.tolist() == [1.0] * 4
    assert all(part.training for part in net.modules())
    assert not images.requires_grad
    assert images.grad is None


def test_images_from_inference_mode_can_be_perturbed() -> None:
    with torch.inference_mode():
        images = pixels(4) * 1
    np.testing.assert_array_equal(odin(images), odin(pixels(4)))


def test_gradients_reach_images_through_odin_with_its_step_held_fixed() -> None:
    net, given = network(), pixels(2).requires_grad_()
    score = Panel(net, [ODIN(epsilon=0.02, temperature=2.0)])["odin"].score(given)
    (gradient,) = torch.autograd.grad(score.sum(), given)
    moved = ODIN(epsilon=0.02, temperature=2.0).perturbed(net, given.detach()).requires_grad_()
    at_two = net(moved).logits.double() / 2
    (expected,) = torch.autograd.grad(MSP().score(Activations(at_two, at_two)).sum(), moved)
    torch.testing.assert_close(gradient, expected)
    assert gradient.abs().max() > 0
    assert all(p.grad is None for p in net.parameters())


def test_odin_needs_two_classes() -> None:
    with pytest.raises(ValueError, match="odin needs a network with at least 2 classes, got 1"):
        odin(pixels(2), network(classes=1))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"temperature": 0.0}, "temperature must be positive and finite, got 0.0"),
        ({"epsilon": -0.1}, "epsilon must be at least 0 and finite, got -0.1"),
        ({"epsilon": float("nan")}, "epsilon must be at least 0 and finite, got nan"),
        ({"variant": "old"}, "variant must be one of paper, openood, got 'old'"),
    ],
)
def test_impossible_parameters_of_odin_are_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ODIN(**params)


def test_odin_finds_unsure_images() -> None:
    """Inliers are all of one color, which a linear classifier reads; outliers are gray."""
    colors = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 3))
    colors[2].weight.data, colors[2].bias.data = 10 * torch.eye(3), torch.zeros(3)
    noise = 0.1 * pixels(400, seed=1)
    inliers = noise[:200] + 0.8 * torch.eye(3)[torch.arange(200) % 3].view(200, 3, 1, 1)
    scores = odin(torch.cat([inliers, noise[200:] + 0.4]), Network(colors, mean=0.0, std=1.0))
    assert roc_auc_score([0] * 200 + [1] * 200, scores) > 0.95


def true_gradnorm(features: Tensor, layer: nn.Linear) -> list[float]:
    """The L1 norm of the weight's gradient, by autograd, image by image."""
    norms = []
    for row in features.double():
        layer.zero_grad()
        (-layer(row[None]).log_softmax(1)).sum().backward()
        assert layer.weight.grad is not None
        norms.append(-layer.weight.grad.abs().sum().item())
    return norms


@pytest.mark.parametrize(("classes", "scale"), [(2, 1.0), (10, 5.0), (100, 20.0)])
def test_gradnorm_is_the_norm_of_the_gradient(classes: int, scale: float) -> None:
    layer = nn.Linear(7, classes).double()
    layer.weight.data, layer.bias.data = scale * draw(classes, 7).double(), draw(classes, seed=1).double()
    features = draw(12, 7, seed=2)
    scores = GradNorm().score(Activations(layer(features.double()).detach(), features))
    assert scores.dtype == torch.float64
    assert scores.tolist() == pytest.approx(true_gradnorm(features, layer), rel=1e-10)


def test_gradnorm_of_flat_logits_is_zero_and_nan_stays_in_its_row() -> None:
    logits, features = draw(3, 5), draw(3, 7)
    logits[0], features[2, 1] = 2.0, torch.nan
    scores = GradNorm().score(Activations(logits, features))
    assert scores[0].item() == pytest.approx(0, abs=1e-14)
    assert scores.isnan().tolist() == [False, False, True]
    assert GradNorm().score(Activations(logits[:0], features[:0])).shape == (0,)


def test_gradnorm_finds_flat_and_small_activations() -> None:
    inliers, outliers = draw(200, 10, seed=1), draw(200, 10, seed=2)
    inliers[torch.arange(200), torch.arange(200) % 10] += 8
    features = torch.cat([draw(200, 16, seed=3).relu() * 2, draw(200, 16, seed=4).relu()])
    scores = GradNorm().score(Activations(torch.cat([inliers, outliers]), features))
    assert roc_auc_score([0] * 200 + [1] * 200, scores) > 0.95
