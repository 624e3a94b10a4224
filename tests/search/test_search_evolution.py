"""The evolution strategy: its rules by hand, and its limits where they are known."""

import math

import pytest
import torch
from scipy import stats

from farout import rng
from farout.search import EvolutionStrategy
from farout.search.evolution import EvolutionState
from farout.search.walk import walk
from farout.variations.space import Space

SPACE = Space(4)


def state(ages, sigmas, scores):
    count = len(ages)
    return EvolutionState(
        torch.full((count, 4), 0.5), torch.tensor(scores).double(), torch.tensor(sigmas), torch.tensor(ages)
    )


def step(search, before, answers):
    return search.step(before, SPACE, lambda z: torch.tensor(answers).double(), rng.generator(0, "test"))


def test_one_in_five():
    """A fall widens by 1.5, a tie is taken but narrows, a rise narrows; four narrowings undo one widening."""
    before = state([90] * 3, [0.08] * 3, [1.0] * 3)
    after, info = step(EvolutionStrategy(), before, [0.5, 1.0, 2.0])
    assert info.moved.tolist() == [True, True, False]
    torch.testing.assert_close(after.sigma, 0.08 * torch.tensor([1.5, 1.5**-0.25, 1.5**-0.25]))
    assert after.score.tolist() == [0.5, 1.0, 1.0]
    assert torch.equal(after.z[2], before.z[2])
    assert torch.equal(after.z[:2], info.z[:2])


def test_begins_anew_when_proposals_are_too_fine():
    """2σ < 0.01 after narrowing: the next point is drawn uniformly and taken, though it scores higher."""
    fine = 0.0051 * torch.ones(1)
    over, _ = step(EvolutionStrategy(), state([90], fine.tolist(), [1.0]), [2.0])
    torch.testing.assert_close(over.sigma, torch.tensor([0.7 / math.sqrt(12)]))
    assert over.age.tolist() == [0]
    assert over.score.tolist() == [1.0]
    after, info = step(EvolutionStrategy(), over, [5.0])
    assert after.score.tolist() == [5.0]
    assert info.moved.all()
    assert torch.equal(after.z, info.z)
    coarse, _ = step(EvolutionStrategy(), state([90], [0.0056], [1.0]), [2.0])
    assert coarse.age.tolist() == [91]
    never, _ = step(EvolutionStrategy(finest=0), state([90], fine.tolist(), [1.0]), [2.0])
    assert never.age.tolist() == [91]


def test_first_queries_are_uniform_and_the_lowest_is_kept():
    asked, chains = [], 500

    def score(z):
        asked.append(z)
        return z.sum(1).double()

    walks = list(walk(EvolutionStrategy(draws=40), SPACE, score, chains, 40, seed=0))
    draws = torch.stack(asked[:40])
    assert stats.kstest(draws.flatten().numpy(), stats.uniform.cdf).pvalue > 1e-4
    assert torch.equal(walks[39].state.score, torch.stack([z.sum(1).double() for z in draws]).min(0).values)
    steps = (asked[40] - walks[39].state.z)[(asked[40] > 0).all(1) & (asked[40] < 1).all(1)]
    assert steps.std() < 0.7 / math.sqrt(12) < draws.std()  # from here on about the lowest


@pytest.mark.parametrize("dim", [2, 5, 20])
def test_converges_on_a_bowl(dim):
    """The distance halves every ln 2 · dim / 0.2 ≈ 3.5·dim queries at best, the progress rate of Rechenberg (1973).

    With the success rule it takes at most three times as many.
    """
    space, halvings = Space(dim), 6
    search = EvolutionStrategy(draws=1, finest=0)
    queries = round(3 * 3.5 * dim * halvings) + 20
    last = list(walk(search, space, lambda z: (z.double() - 0.4).square().sum(1), 50, queries, seed=0))[-1]
    assert (last.best / last.start).sqrt().log2().median() < -halvings


def test_finds_the_pole_of_the_sphere():
    """The lowest of −z·a on the sphere is −1, at a."""
    space = Space(16, "sphere")
    pole = torch.nn.functional.normalize(torch.arange(1.0, 17), dim=0)
    last = list(walk(EvolutionStrategy(), space, lambda z: -(z @ pole).double(), 50, 800, seed=0))[-1]
    assert (last.best < -0.99).all()
    assert (last.best >= -1 - 1e-6).all()


def test_reaches_a_corner():
    """Clamped proposals land on faces: the lowest corner of a linear score is hit exactly."""
    last = list(walk(EvolutionStrategy(), SPACE, lambda z: z.sum(1).double(), 50, 300, seed=0))[-1]
    assert (last.best == 0).all()


@pytest.mark.parametrize(
    "setting", [{"draws": 0}, {"sigma": 0}, {"factor": 1}, {"finest": -1}, {"boundary": "wrap"}], ids=str
)
def test_impossible_settings(setting):
    with pytest.raises(ValueError, match=next(iter(setting))):
        EvolutionStrategy(**setting)
