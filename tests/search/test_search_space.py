"""The domains of latents against their definitions."""

import math

import pytest
import torch
from scipy import stats

from farout import rng
from farout.variations.space import Space


def test_reflection_is_a_folded_ruler():
    z = torch.tensor([[-2.25, -1.0, -0.3, 0.0, 0.4, 1.0, 1.2, 2.5, 3.9]])
    expected = torch.tensor([[0.25, 1.0, 0.3, 0.0, 0.4, 1.0, 0.8, 0.5, 0.1]])
    torch.testing.assert_close(Space(9).inside(z, "reflect"), expected)
    torch.testing.assert_close(Space(9).inside(z), z.clamp(0, 1))


def test_the_sphere_keeps_directions():
    z = torch.tensor([[3.0, 4.0], [0.0, -0.1]])
    for boundary in ("clamp", "reflect"):
        found = Space(2, "sphere").inside(z, boundary)
        torch.testing.assert_close(found, torch.tensor([[0.6, 0.8], [0.0, -1.0]]))


@pytest.mark.parametrize("space", [Space(5), Space(5, "sphere")], ids=["cube", "sphere"])
def test_uniform_points(space):
    """A coordinate of the cube is uniform; (1 + z)/2 of the sphere in 5 dimensions is Beta(2, 2)."""
    z = space.uniform(20_000, rng.generator(0, "test")).double().numpy()
    law = stats.uniform() if space.domain == "cube" else stats.beta(2, 2, loc=-1, scale=2)
    assert all(stats.kstest(axis, law.cdf).pvalue > 1e-4 for axis in z.T)
    assert math.isclose(space.spread, law.std(), rel_tol=1e-12)
