"""Coordinate descent against a slow loop."""

import numpy as np
import pytest
import torch

from farout.search import CoordinateDescent
from farout.search.walk import walk
from farout.variations.space import Space

CHAINS, STEPS = 4, 60
CENTER = torch.tensor([0.3, 0.9, 0.55], dtype=torch.float64)


def bowl(z):
    return (8 * (z.double() - CENTER).square()).sum(1) + 4 * z[:, 0].double() * z[:, 1].double()


class From(CoordinateDescent):
    """Chains that begin at the upper face, the lower face, and inside."""

    def start(self, space, count, rng):
        return torch.tensor([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [0.95, 0.2, 0.5], [0.4, 0.6, 0.91]])


def reference(start, sphere):
    """One chain after the other, in float64: the points that are asked for, [2·moves + 1, 3]."""

    def inside(z):
        return z / np.linalg.norm(z) if sphere else np.clip(z, 0, 1)

    def score(z):
        return float(bowl(torch.from_numpy(z)[None])[0])

    z, asked = start.astype(np.float64), [start]
    for move in range(STEPS // 2):
        axis = np.eye(3)[move % 3]
        sign = -1 if not sphere and z @ axis + 0.1 > 1 else 1
        probe = inside(z + sign * 0.1 * axis)
        slope = sign * (score(probe) - score(z)) / 0.1
        z = inside(z - 0.1 * 0.05 * slope * axis)
        asked += [probe, z]
    return np.array(asked)


@pytest.mark.parametrize("domain", ["cube", "sphere"])
def test_probes_and_moves_equal_a_slow_loop(domain):
    asked, space, search = [], Space(3, domain), From() if domain == "cube" else CoordinateDescent()

    def score(z):
        asked.append(z.double().numpy().copy())
        return bowl(z)

    last = list(walk(search, space, score, CHAINS, STEPS, seed=0))[-1]
    for path in np.stack(asked, 1):
        np.testing.assert_allclose(path, reference(path[0], domain == "sphere"), atol=STEPS * 1e-6)
    assert (last.moves <= STEPS // 2).all()  # probes are no moves
    assert (last.moves > STEPS // 4).all()


def test_closed_form_on_a_bowl():
    """Of 8·(z − c)² a probe at z + 0.1 sees the rise 1.6·(z − c + 0.05): a move leaves 0.92 of the way to c − 0.05."""
    last = list(walk(From(), Space(3), lambda z: (8 * (z.double() - CENTER).square()).sum(1), CHAINS, 60, seed=0))[-1]
    bottom = CENTER[[0, 2]] - 0.05
    expected = bottom * (1 - 0.92**10)  # the second chain starts at 0, and each coordinate has moved ten times
    torch.testing.assert_close(last.state.z[1, [0, 2]].double(), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("setting", [{"reach": 0}, {"reach": 0.6}, {"rate": 0}], ids=str)
def test_impossible_settings(setting):
    with pytest.raises(ValueError, match=next(iter(setting))):
        CoordinateDescent(**setting)
