"""What every registered search promises, and that the one loop keeps the right record."""

import random

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from farout import rng
from farout.search import SEARCHES
from farout.search.walk import Walk, marks_for, walk
from farout.variations.space import Space

CHAINS, STEPS, SEED = 7, 60, 3
SPACES = [Space(3), Space(3, "sphere"), Space(40), Space(64, "sphere")]
every_search = pytest.mark.parametrize("name", SEARCHES.names())
every_space = pytest.mark.parametrize("space", SPACES, ids=lambda space: f"{space.domain}{space.dim}")


class Waves:
    """A score with many minima, another for every chain; remembers all that it was asked."""

    def __init__(self, flipped=()):
        self.asked, self.answers = [], []
        self.sign = torch.tensor([-1.0 if chain in flipped else 1.0 for chain in range(CHAINS)])

    def __call__(self, z):
        phase = torch.arange(len(z))[:, None]
        scores = self.sign * (torch.sin(9 * z + phase).sum(1).double() + (z - 0.3).square().sum(1))
        self.asked.append(z.clone())
        self.answers.append(scores.clone())
        return scores


def walked(name, space, score=None, steps=STEPS, resume=None, marks=()):
    return list(
        walk(SEARCHES.create(name), space, score or Waves(), CHAINS, steps, seed=SEED, resume=resume, marks=marks)
    )


def same(one, other):
    assert one.keys() == other.keys()
    for key in one:
        np.testing.assert_array_equal(one[key], other[key], err_msg=key)


def arrays(state):
    return {key: value.clone().numpy() for key, value in state._asdict().items()}


@every_search
@every_space
def test_steps_are_pure(name, space):
    search, states = SEARCHES.create(name), [current.state for current in walked(name, space, steps=30)]
    before = [arrays(state) for state in states]
    for index, state in enumerate(states[:-1]):
        after, _ = search.step(state, space, Waves(), rng.generator(SEED, "search", 0, index))
        same(arrays(after), before[index + 1])
        same(arrays(state), before[index])


@every_search
@every_space
def test_all_that_is_queried_lies_in_the_domain(name, space):
    score = Waves()
    walked(name, space, score)
    asked = torch.stack(score.asked).double()
    if space.domain == "cube":
        assert asked.min() >= 0
        assert asked.max() <= 1
    else:
        torch.testing.assert_close(asked.norm(dim=2), torch.ones(asked.shape[:2]).double(), atol=1e-6, rtol=0)


@every_search
@every_space
def test_a_step_reports_the_lowest_of_its_queries(name, space):
    search, states = SEARCHES.create(name), [current.state for current in walked(name, space, steps=30)]
    for index, state in enumerate(states):
        score = Waves()
        after, info = search.step(state, space, score, rng.generator(SEED, "search", 0, index))
        assert len(score.asked) == search.queries(space)
        lowest = torch.stack(score.answers).min(0)
        assert torch.equal(info.score, lowest.values)
        assert torch.equal(info.z, torch.stack(score.asked)[lowest.indices, torch.arange(CHAINS)])
        assert torch.equal(Waves()(after.z), after.score)


@every_search
@every_space
def test_best_and_trace_are_running_minima(name, space):
    score, marks = Waves(), list(range(1, 90))
    last = walked(name, space, score, marks=marks)[-1]
    asked, answers = torch.stack(score.asked), torch.stack(score.answers)
    assert torch.equal(last.best, answers.min(0).values)
    assert torch.equal(last.best_z, asked[answers.argmin(0), torch.arange(CHAINS)])
    assert torch.equal(last.start, answers[0])
    per_step = SEARCHES.create(name).queries(space)
    for column, mark in enumerate(marks):
        whole_steps = min((mark - 1) // per_step, STEPS)
        known = answers[: 1 + whole_steps * per_step].min(0).values
        np.testing.assert_array_equal(last.trace[:, column], known.numpy())


@every_search
@every_space
def test_left_in_the_middle_and_taken_up_again(name, space, tmp_path):
    marks = marks_for(2 * STEPS, 20)
    whole = walked(name, space, marks=marks)[-1].arrays()
    save_file(walked(name, space, steps=23, marks=marks)[-1].arrays(), tmp_path / "walk.safetensors")
    left = Walk.from_arrays(load_file(tmp_path / "walk.safetensors"), SEARCHES.create(name), torch.device("cpu"))
    assert left.steps == 23
    same(walked(name, space, resume=left, marks=marks)[-1].arrays(), whole)


@every_search
@every_space
def test_chains_know_nothing_of_each_other(name, space):
    plain = walked(name, space)[-1].arrays()
    other = walked(name, space, Waves(flipped=(2, 5)))[-1].arrays()
    others = np.delete(np.arange(CHAINS), [2, 5])
    for key in plain.keys() - {"steps", "sums"}:
        np.testing.assert_array_equal(plain[key][others], other[key][others], err_msg=key)
    assert not np.array_equal(plain["best"], other["best"])


@every_search
def test_no_global_generator_is_touched(name):
    torch_state, python_state = torch.get_rng_state(), random.getstate()
    numpy_state = np.random.get_state()[1].copy()  # noqa: NPY002
    first = walked(name, SPACES[0])[-1].arrays()
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002
    assert random.getstate() == python_state
    torch.manual_seed(99)
    try:
        same(walked(name, SPACES[0])[-1].arrays(), first)
    finally:
        torch.set_rng_state(torch_state)


@every_search
def test_scaled_undoes_the_units_of_scores(name):
    """Scores in other units, settings scaled to them: the same path. Powers of two leave no rounding behind."""
    search, std = SEARCHES.create(name), 4.0
    plain = list(walk(search, SPACES[0], Waves(), CHAINS, STEPS, seed=SEED))[-1]
    scaled = list(walk(search.scaled(std), SPACES[0], lambda z: std * Waves()(z), CHAINS, STEPS, seed=SEED))[-1]
    assert torch.equal(plain.best_z, scaled.best_z)
    assert torch.equal(std * plain.best, scaled.best)
