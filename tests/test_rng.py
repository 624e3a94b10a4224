"""Seeds by path: paths do not collide, and no global generator is read or changed."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from farout import Panel, PostHoc, detectors, load, networks
from farout.rng import generator, numpy_generator, seed_of


def test_a_seed_is_the_hash_of_its_path() -> None:
    text = b"int1:7str5:trainint2:-3str0:"
    assert seed_of(7, "train", -3, "") == int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 1


def test_golden_seeds() -> None:
    assert [seed_of(0), seed_of(0, "toy", "train", 5)] == [8970130655166120123, 3084420207215369526]


def test_paths_do_not_collide() -> None:
    steps = ["", "a", "b", "ab", "1", "int1:1", "str1:a", ":", 0, 1, 11, -1]
    paths = [path for length in range(4) for path in itertools.product(steps, repeat=length)]
    seeds = {seed_of(seed, *path) for seed in (0, 1, 11) for path in paths}
    assert len(seeds) == 3 * len(paths)


@given(st.lists(st.text() | st.integers(), max_size=4), st.lists(st.text() | st.integers(), max_size=4))
def test_other_paths_have_other_seeds(first: list[Any], second: list[Any]) -> None:
    same = [(type(step), step) for step in first] == [(type(step), step) for step in second]
    assert (seed_of(0, *first) == seed_of(0, *second)) == same


def test_seeds_fit_every_generator() -> None:
    seeds = [seed_of(seed, "x") for seed in (0, -5, 2**70)]
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert len(set(seeds)) == 3


def test_integers_of_numpy_are_integers() -> None:
    assert seed_of(np.int64(3), "a", np.int32(5)) == seed_of(3, "a", 5)  # type: ignore[arg-type]
    assert seed_of(0, np.str_("a")) == seed_of(0, "a")


@pytest.mark.parametrize("step", [1.5, None, b"a"])
def test_other_steps_are_refused(step: Any) -> None:
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        seed_of(0, step)


def test_generators_are_those_of_the_seed() -> None:
    seed = seed_of(3, "a", 1)
    ours = torch.rand(5, generator=generator(3, "a", 1))
    assert torch.equal(ours, torch.rand(5, generator=torch.Generator().manual_seed(seed)))
    assert numpy_generator(3, "a", 1).random(5).tolist() == np.random.default_rng(seed).random(5).tolist()


def states() -> list[Any]:
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002
    return [torch.get_rng_state().tolist(), kind, keys.tolist(), rest, random.getstate()]


@pytest.fixture
def _restored() -> Iterator[None]:
    before = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    yield
    torch.set_rng_state(before[0])
    np.random.set_state(before[1])  # noqa: NPY002
    random.setstate(before[2])


def everything() -> list[Any]:
    """Load, create, fit, score: the results of it all."""
    train, val, test = (load("toy", split, limit=120, side=16) for split in ("train", "val", "test/ood_cls"))
    network = networks.create("lenet", 4, 16)
    panel = Panel(network, detectors.names_of(PostHoc)).fit(train, val)
    scores = panel.score(test)
    member = panel["knn"].score(test.batch(range(8)))
    noise = load("toy", "test", limit=3, side=16).batch([0, 1, 2])
    return [network.digest, *(scores[name].tolist() for name in sorted(scores)), member.tolist(), noise.tolist()]


@pytest.mark.usefixtures("_restored")
def test_no_global_generator_is_read_or_changed() -> None:
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        random.seed(seed)
        before = states()
        results.append(everything())
        assert states() == before
    assert results[0] == results[1]
