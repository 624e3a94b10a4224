"""Figure 2 of "Evaluation via Generation" in miniature: a planted lowest point among many others.

A broad basin draws chains away from a narrower and deeper one, and a ripple adds local minima to both.
"""

import pytest
import torch

from farout.search import CoordinateDescent, EvolutionStrategy, MetropolisHastings
from farout.search.walk import walk
from farout.variations.space import Space

SPACE, CHAINS, PLANTED = Space(3), 100, 0.8


def score(z):
    z = z.double()
    broad = -3 * torch.exp(-(z - 0.25).square().sum(1) / (2 * 0.3**2))
    deep = -8 * torch.exp(-(z - PLANTED).square().sum(1) / (2 * 0.15**2))
    return broad + deep + torch.cos(25 * z).mean(1)


@pytest.fixture(scope="module")
def lowest():
    """The lowest score on a fine grid."""
    axis = torch.linspace(0, 1, 101)
    return score(torch.cartesian_prod(axis, axis, axis)).min().item()


def found(search, steps, lowest):
    """The share of chains that have come close to the lowest point."""
    last = list(walk(search, SPACE, score, CHAINS, steps, seed=0))[-1]
    near = last.best < 0.85 * lowest
    assert ((last.best_z[near] - PLANTED).abs() < 0.1).all()
    return near.double().mean().item()


def test_sampling_finds_it_and_coordinate_descent_does_not(lowest):
    """At the paper's settings; shares of 100 chains have a standard error of at most 0.05."""
    assert found(MetropolisHastings(), 2_000, lowest) > 0.95
    assert found(CoordinateDescent(), 2_000, lowest) < 0.35


def test_evolution_finds_it_with_a_quarter_of_the_queries(lowest):
    assert found(EvolutionStrategy(), 500, lowest) > 0.95
    assert found(MetropolisHastings(), 500, lowest) < 0.9
