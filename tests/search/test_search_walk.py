"""The loop's diagnostics, against closed forms."""

import math

import numpy as np
import pytest
import torch

from farout.search import RandomSearch
from farout.search.metropolis import MHState
from farout.search.search import Info, Search
from farout.search.walk import diagnose, marks_for, walk
from farout.variations.space import Space

CHAINS, STEPS = 5, 400


def flat(z):
    return torch.zeros(len(z), dtype=torch.float64)


class Planned(Search):
    """Goes where it is told: a function of the number of steps."""

    state = MHState

    def __init__(self, place, moves):
        self.place, self.moves, self.done = place, moves, 0

    def start(self, space, count, rng):
        return torch.full((count, space.dim), self.place(0))

    def init(self, space, z, score):
        return MHState(z, score)

    def step(self, state, space, score, rng):
        self.done += 1
        z = torch.full_like(state.z, self.place(self.done))
        moved = torch.full((len(z),), self.moves(self.done))
        return MHState(z, score(z)), Info(z, score(z), moved)


def diagnosed(search, space, steps=STEPS):
    return diagnose(list(walk(search, space, flat, CHAINS, steps, seed=0))[-1], space)


def test_a_chain_that_never_moves():
    found = diagnosed(Planned(lambda step: 0.25, lambda step: False), Space(4))
    assert (found.accepted == 0).all()
    assert (found.exploration == 0).all()
    assert found.stuck.all()


def test_a_chain_that_swings_between_two_points():
    """Of 401 states 201 are at 0 and 200 at 1: the variance is p(1 − p); that of uniform draws is 1/12."""
    found = diagnosed(Planned(lambda step: float(step % 2), lambda step: True), Space(4))
    share = 200 / 401
    np.testing.assert_allclose(found.exploration, math.sqrt(12 * share * (1 - share)), rtol=1e-12)
    assert (found.accepted == 1).all()
    assert not found.stuck.any()


@pytest.mark.parametrize(("last", "stuck"), [(200, True), (201, False)])
def test_stuck_means_no_move_in_the_second_half(last, stuck):
    found = diagnosed(Planned(lambda step: 0.5, lambda step: step <= last), Space(2))
    assert (found.stuck == stuck).all()
    np.testing.assert_allclose(found.accepted, last / STEPS)


def test_no_steps_yet():
    found = diagnosed(Planned(lambda step: 0.5, lambda step: True), Space(2), steps=0)
    assert (found.accepted == 0).all()
    assert (found.exploration == 0).all()
    assert not found.stuck.any()


@pytest.mark.parametrize("space", [Space(6), Space(6, "sphere")], ids=["cube", "sphere"])
def test_uniform_draws_have_been_everywhere(space):
    """The relative error of a variance from n draws is at most √(2/n) per coordinate, half that for the spread."""
    found = diagnosed(RandomSearch(), space)
    error = math.sqrt(2 / (STEPS + 1)) / 2 / math.sqrt(space.dim)
    np.testing.assert_allclose(found.exploration, 1, atol=4.5 * error)
    assert (found.accepted == 1).all()
    assert not found.stuck.any()


def test_marks_are_numbers_of_queries_up_to_all():
    assert marks_for(1) == [1]
    marks = marks_for(2_000, 64)
    assert (marks[0], marks[-1]) == (1, 2_000)
    assert len(marks) <= 64
    assert marks == sorted(set(marks))
