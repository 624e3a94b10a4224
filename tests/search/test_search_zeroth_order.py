"""The black-box l_inf attack against a slow loop and known gradients."""

import numpy as np
import pytest
import torch

from farout import rng
from farout.search import ZerothOrder
from farout.search.walk import walk
from farout.search.zeroth_order import ZerothOrderState
from farout.variations.space import Space

SPACE, CHAINS = Space(12), 3
TARGET = torch.linspace(0.1, 1.4, SPACE.dim, dtype=torch.float64)
"""Where the quadratic is lowest; partly outside the cube."""


def quadratic(z):
    return (z.double() - TARGET).square().sum(1)


def reference(search, seed, steps):
    """Step by step and pixel by pixel, in float64 and in pixel values about an image of zeros; the path in latents."""
    radius, h, size = search.radius, search.h, search.step_size
    x, velocity, path = np.zeros((CHAINS, SPACE.dim)), np.zeros((CHAINS, SPACE.dim)), []

    def energy(x):
        return sum((x[:, i] / (2 * radius) + 0.5 - float(TARGET[i])) ** 2 for i in range(SPACE.dim))

    for step in range(steps):
        if step and step % search.halve_every == 0:
            h, size = h / 2, size / 2
        u = torch.randn(CHAINS, SPACE.dim, generator=rng.generator(seed, "search", 0, step)).double().numpy()
        rise = energy(np.clip(x + h * u, -radius, radius)) - energy(x)
        for chain in range(CHAINS):
            for i in range(SPACE.dim):
                velocity[chain, i] = search.momentum * velocity[chain, i] + size * rise[chain] * u[chain, i]
        x = np.clip(x - velocity, -radius, radius)
        path.append(x / (2 * radius) + 0.5)
    return np.array(path)


@pytest.mark.parametrize("momentum", [0.0, 0.9, 0.999])
def test_first_steps_equal_a_slow_loop(momentum):
    search = ZerothOrder(momentum=momentum, step_size=1e-4, halve_every=10)
    walks = list(walk(search, SPACE, quadratic, CHAINS, 35, seed=5))
    found = np.array([current.state.z.double().numpy() for current in walks[1:]])
    expected = reference(search, 5, 35)
    np.testing.assert_allclose(found, expected, atol=35 * 2e-6)  # float32 latents, errors of every step add up
    assert np.ptp(expected) > 0.1
    assert ((expected == 0) | (expected == 1)).any() == (momentum == 0.999)


def test_starts_at_the_unchanged_image():
    walks = list(walk(ZerothOrder(), SPACE, quadratic, CHAINS, 0, seed=0))
    assert torch.equal(walks[0].best_z, torch.full((CHAINS, SPACE.dim), 0.5))


def test_the_mean_of_pushes_is_the_gradient():
    """E[u·(f(x + h·u) − f(x))] = h·∇f for a quadratic, since third moments of u vanish."""
    chains, dim, h = 40_000, 3, 0.1
    target = torch.tensor([0.2, 0.5, 0.9], dtype=torch.float64)
    search = ZerothOrder(h=h, step_size=1e-3, momentum=0.0, radius=0.5)
    z = torch.full((chains, dim), 0.5)

    def score(z):
        return (z.double() - target).square().sum(1)

    state, _ = search.step(search.init(Space(dim), z, score(z)), Space(dim), score, rng.generator(0, "test"))
    pushes = state.velocity.double() / search.step_size
    error = pushes.std(0) / chains**0.5
    assert ((pushes.mean(0) - h * 2 * (0.5 - target)).abs() < 4 * error).all()
    assert (error < 0.003).all()  # the gradient's largest entry is h·0.8 = 0.08


@pytest.mark.parametrize(("count", "halvings"), [(0, 0), (1_999, 0), (2_000, 1), (3_999, 1), (4_000, 2), (19_999, 9)])
def test_halvings_come_after_every_2000_steps(count, halvings):
    """A probe's length tells h, a move's length the step size."""
    search, asked = ZerothOrder(momentum=0.0), []

    def score(z):
        asked.append(z.double())
        return torch.full((CHAINS,), 1e-4 * len(asked), dtype=torch.float64)

    none = torch.zeros(CHAINS)
    state = ZerothOrderState(
        torch.full((CHAINS, SPACE.dim), 0.5), none.double(), torch.zeros(CHAINS, SPACE.dim), none.long() + count
    )
    search.step(state, SPACE, score, rng.generator(0, "test"))
    u = torch.randn(CHAINS, SPACE.dim, generator=rng.generator(0, "test")).double()
    probe = (0.5 + u * 0.005 / 0.02 / 2**halvings).clamp(0, 1)
    move = (0.5 - u * 1e-4 * 0.1 / 0.02 / 2**halvings).clamp(0, 1)
    torch.testing.assert_close(asked[0], probe, atol=1e-6, rtol=0)
    torch.testing.assert_close(asked[1], move, atol=1e-7, rtol=0)


def test_comes_to_the_corner_where_a_linear_score_is_lowest():
    slopes = torch.linspace(0.5, 1.5, SPACE.dim, dtype=torch.float64) * torch.tensor([1.0, -1.0] * (SPACE.dim // 2))
    last = list(walk(ZerothOrder(), SPACE, lambda z: z.double() @ slopes, CHAINS, 300, seed=1))[-1]
    assert torch.equal(last.best_z.double(), (slopes < 0).double().expand(CHAINS, -1))
    torch.testing.assert_close(last.best, slopes.clamp(max=0).sum().expand(CHAINS))


@pytest.mark.parametrize(
    "setting", [{"h": 0}, {"step_size": -0.1}, {"radius": 0}, {"momentum": 1}, {"halve_every": 0}], ids=str
)
def test_impossible_settings(setting):
    with pytest.raises(ValueError, match=next(iter(setting))):
        ZerothOrder(**setting)
