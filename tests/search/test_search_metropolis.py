"""Metropolis–Hastings against closed forms. Every chain gives one sample, so that Monte-Carlo errors are known."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from farout import rng
from farout.search import MetropolisHastings
from farout.search.metropolis import MHState
from farout.search.walk import walk
from farout.variations.space import Space

SQUARE = Space(2)
BOUND = 4
"""Standard errors: a check of a hundred numbers fails by chance with probability 100 × 6e-5."""


def last(search, space, score, chains, steps, count=1, seed=0):
    """The last states of all chains, [count, chains, dim]."""
    states = [current.state.z for current in walk(search, space, score, chains, steps, seed=seed)]
    return torch.stack(states[-count:]).double().numpy()


def near(found, expected, error):
    np.testing.assert_array_less(np.abs(np.asarray(found) - expected), BOUND * np.asarray(error))


def test_truncated_normals_in_the_square():
    """p(z) ∝ exp(−f/T) with f = T·Σ(z − m)²/2s² is a product of truncated normals, whose moments are known."""
    mean, std, temperature, chains = torch.tensor([0.15, 0.7]), torch.tensor([0.25, 0.3]), 2.0, 20_000

    def score(z):
        return temperature * ((z - mean) / std).square().sum(1).double() / 2

    search = MetropolisHastings(sigma=0.4, temperature=temperature, boundary="reflect")
    z = last(search, SQUARE, score, chains, 120)[0]
    for axis, (m, s) in enumerate(zip(mean.tolist(), std.tolist(), strict=True)):
        truth = stats.truncnorm(-m / s, (1 - m) / s, loc=m, scale=s)
        moments = [truth.moment(order) for order in range(5)]
        central = sum(math.comb(4, k) * moments[k] * (-moments[1]) ** (4 - k) for k in range(5))
        near(z[:, axis].mean(), truth.mean(), truth.std() / math.sqrt(chains))
        near(z[:, axis].var(), truth.var(), math.sqrt((central - truth.var() ** 2) / chains))
        assert stats.kstest(z[:, axis], truth.cdf).pvalue > 1e-4
    near(np.corrcoef(z.T)[0, 1], 0, 1 / math.sqrt(chains))


def test_correlated_density_in_the_square():
    """Mean and covariance of exp(−zᵀAz/2 + bᵀz) cut off at the square, against the midpoint rule on a fine grid."""
    matrix, shift, chains = torch.tensor([[16.0, -10.0], [-10.0, 12.0]]), torch.tensor([3.0, 0.0]), 20_000

    def score(z):
        return ((z @ matrix) * z).sum(1).double() / 2 - (z @ shift).double()

    z = last(MetropolisHastings(sigma=0.3, boundary="reflect"), SQUARE, score, chains, 120)[0]
    middles = (torch.arange(500) + 0.5) / 500
    grid = torch.cartesian_prod(middles, middles)
    weights = (-score(grid)).softmax(0).numpy()
    points = grid.double().numpy()
    mean = weights @ points
    outer = (points - mean)[:, :, None] * (points - mean)[:, None]
    covariance = np.einsum("n,nij->ij", weights, outer)
    fourth = np.einsum("n,nij->ij", weights, outer**2)
    assert covariance[0, 1] > 0.01
    near(z.mean(0), mean, np.sqrt(np.diag(covariance) / chains))
    near(np.cov(z.T), covariance, np.sqrt((fourth - covariance**2) / chains))


def test_flows_between_cells_balance_with_reflect():
    """In the stationary state as many chains go from any cell to any other as come back: the errors are Poisson's.

    Among several cells stationarity alone does not imply it: chains could go round in circles.
    """

    def score(z):
        return (4 * z[:, 0] + 2 * torch.sin(6 * z[:, 1])).double()

    search = MetropolisHastings(sigma=0.3, boundary="reflect")
    before, after = last(search, SQUARE, score, 40_000, 100, count=2)
    cells = [np.digitize(z[:, 0], [0.15, 0.4]) * 3 + np.digitize(z[:, 1], [0.3, 0.8]) for z in (before, after)]
    flows = np.zeros((9, 9))
    np.add.at(flows, tuple(cells), 1)
    both = flows + flows.T
    assert (both[~np.eye(9, dtype=bool)] > 100).mean() > 0.5
    near(flows - flows.T, 0, np.sqrt(np.maximum(both, 1)))


@pytest.mark.parametrize("sigma", [0.1, 0.3])
def test_clamping_piles_chains_up_on_the_faces(sigma):
    """From uniform starts, at infinite temperature, a step lands on a face with probability ∫Φ(−z/σ)dz over [0, 1].

    Reflected, it lands on none and stays uniform.
    """
    chains, ends = 100_000, {}
    for boundary in ("clamp", "reflect"):
        search = MetropolisHastings(sigma=sigma, temperature=math.inf, boundary=boundary)
        ends[boundary] = last(search, Space(1), lambda z: torch.zeros(len(z)).double(), chains, 1)[0, :, 0]
    far = 1 / sigma
    expected = stats.norm.cdf(-far) + sigma * (stats.norm.pdf(0) - stats.norm.pdf(far))
    for face in (0, 1):
        near((ends["clamp"] == face).mean(), expected, math.sqrt(expected / chains))
    assert stats.kstest(ends["reflect"], stats.uniform.cdf).pvalue > 1e-4


@pytest.mark.parametrize("dim", [3, 8])
def test_uniform_on_the_sphere_at_infinite_temperature(dim):
    """From one point to uniform: mean 0, covariance 1/dim, and (1 + z)/2 ~ Beta(k, k) with k = (dim − 1)/2."""

    class FromPole(MetropolisHastings):
        def start(self, space, count, rng):
            return torch.eye(space.dim)[:1].repeat(count, 1)

    chains, space = 20_000, Space(dim, "sphere")
    search = FromPole(sigma=0.4, temperature=math.inf)
    z = last(search, space, lambda z: torch.zeros(len(z)).double(), chains, 80)[0]
    near(z.mean(0), 0, math.sqrt(1 / dim / chains))
    outer, diagonal = z.T @ z / chains, np.eye(dim, dtype=bool)
    product, square = 1 / (dim * (dim + 2)), 3 / (dim * (dim + 2)) - 1 / dim**2  # variances of z_i·z_j and of z_i²
    near(outer[diagonal], 1 / dim, math.sqrt(square / chains))
    near(outer[~diagonal], 0, math.sqrt(product / chains))
    assert stats.kstest((1 + z[:, 0]) / 2, stats.beta((dim - 1) / 2, (dim - 1) / 2).cdf).pvalue > 1e-4


def test_acceptance_follows_the_formula():
    """By hand, at T = 2: a rise by 0, 1, 2, 4 is taken with probability 1, e^−½, e^−1, e^−2, a fall always."""
    expected = {-1.0: 1.0, 0.0: 1.0, 1.0: 0.6065307, 2.0: 0.3678794, 4.0: 0.1353353}
    each = 20_000
    rises = torch.tensor(list(expected), dtype=torch.float64).repeat_interleave(each)
    state = MHState(torch.full((len(rises), 2), 0.5), torch.full_like(rises, 7.0))
    after, info = MetropolisHastings(temperature=2.0).step(state, SQUARE, lambda z: 7 + rises, rng.generator(0, "test"))
    taken = info.moved.view(len(expected), each).double().mean(1)
    for share, probability in zip(taken.tolist(), expected.values(), strict=True):
        assert abs(share - probability) <= BOUND * math.sqrt(probability * (1 - probability) / each)
    assert torch.equal(after.z, torch.where(info.moved[:, None], info.z, state.z))
    assert torch.equal(after.score, torch.where(info.moved, 7 + rises, 7.0))


def test_proposals_are_gaussian_on_all_coordinates():
    chains = 20_000
    state = MHState(torch.full((chains, 3), 0.5), torch.zeros(chains).double())
    _, info = MetropolisHastings().step(
        state, Space(3), lambda z: torch.ones(chains).double(), rng.generator(1, "test")
    )
    steps = (info.z - 0.5).double().numpy() / 0.1
    assert all(stats.kstest(axis, stats.norm.cdf).pvalue > 1e-4 for axis in steps.T)
    near(np.corrcoef(steps.T)[~np.eye(3, dtype=bool)], 0, 1 / math.sqrt(chains))


def test_cold_chains_only_descend():
    def score(z):
        return torch.sin(20 * z).sum(1).double()

    walks = list(walk(MetropolisHastings(temperature=1e-9), SQUARE, score, 50, 200, seed=0))
    scores = torch.stack([current.state.score for current in walks])
    assert (scores[1:] <= scores[:-1]).all()
    assert torch.equal(walks[-1].best, scores[-1])
    assert (scores[-1] < scores[0]).all()


@pytest.mark.parametrize(
    ("setting", "message"),
    [({"sigma": 0}, "sigma"), ({"temperature": -1}, "temperature"), ({"boundary": "wrap"}, "boundary")],
)
def test_impossible_settings(setting, message):
    with pytest.raises(ValueError, match=message):
        MetropolisHastings(**setting)


def test_a_proposal_that_is_clamped_back_to_where_the_chain_stands_is_no_move():
    """In a corner, a proposal that leads outwards on all coordinates is taken, and nothing has moved."""
    space, chains = Space(2), 4_000
    state = MHState(torch.zeros(chains, 2), torch.zeros(chains).double())
    flat = MetropolisHastings()
    after, info = flat.step(state, space, lambda z: torch.zeros(len(z)).double(), rng.generator(0, "corner"))
    moved = (after.z != 0).any(1)
    assert torch.equal(info.moved, moved)
    assert abs(moved.double().mean() - 3 / 4) < 4 * (3 / 16 / chains) ** 0.5  # one in four leads outwards on both
