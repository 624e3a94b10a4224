"""What `farout.worst_case` finds: values with closed forms, and the same ones again."""

from __future__ import annotations

import dataclasses
import itertools
import random
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

import farout
from farout.search import MetropolisHastings, RandomSearch
from farout.search.metropolis import MHState
from farout.search.search import Info, Search


class Box(farout.Variation):
    """Moves every number of a row by at most 1."""

    dim = 2

    def decode(self, z: Tensor, base: Tensor) -> Tensor:
        return base + 2 * z - 1


class Dimmer(farout.Variation):
    """Images between half as bright and as they are."""

    dim = 1

    def decode(self, z: Tensor, base: Tensor) -> Tensor:
        return (0.5 + 0.5 * z[:, :, None, None]) * base


class Ball(farout.Variation):
    """Points on the sphere, of nothing."""

    dim, domain, conditional = 3, "sphere", False

    def decode(self, z: Tensor, base: Any) -> Tensor:
        assert base is None
        return 2 * z


@dataclasses.dataclass(kw_only=True)
class Pairs(Search):
    """Two uniform draws in a step."""

    state: ClassVar[type[Any]] = MHState

    def queries(self, space: Any) -> int:
        return 2

    def init(self, space: Any, z: Tensor, score: Tensor) -> MHState:
        return MHState(z, score)

    def step(self, state: Any, space: Any, score: Any, rng: torch.Generator) -> tuple[MHState, Info]:
        one, two = space.uniform(len(state.z), rng), space.uniform(len(state.z), rng)
        first, second = score(one), score(two)
        better = second < first
        z, low = torch.where(better[:, None], two, one), torch.where(better, second, first)
        return MHState(z, low), Info(z, low, torch.ones_like(better))


def from_origin(rows: Tensor) -> Tensor:
    return rows.double().square().sum(1).sqrt()


def brightness(images: Tensor) -> Tensor:
    return images.double().mean((1, 2, 3))


def rows(total: int, far: float = 5.0) -> Tensor:
    return far * torch.randn(total, 2, generator=torch.Generator().manual_seed(1))


INLIERS = torch.randn(50, 2, generator=torch.Generator().manual_seed(2))


def same(one: farout.Found, two: farout.Found, count: int | None = None) -> bool:
    """Are the first chains of one those of the other, in every number?"""
    names = [field.name for field in dataclasses.fields(farout.Found) if field.name != "std"]
    pairs = [(np.asarray(getattr(one, name))[:count], np.asarray(getattr(two, name))[:count]) for name in names]
    return one.std == two.std and all(np.array_equal(a, b) for a, b in pairs)


def test_mh_finds_the_nearest_corner_of_a_box_that_lies_off_the_axes() -> None:
    """Clamped proposals land on a corner exactly, once a chain is near it: a quarter of them."""
    base = torch.tensor([[3.0, 4.0], [-2.0, 6.0], [-5.0, -1.5], [9.0, -9.0]])
    found = farout.worst_case(from_origin, Box(), base, inliers=INLIERS, steps=200)
    assert np.array_equal(found.latents.numpy(), (base < 0).numpy())
    assert found.images.tolist() == [[2.0, 3.0], [-1.0, 5.0], [-4.0, -0.5], [8.0, -8.0]]
    assert found.scores == pytest.approx(np.sqrt([4 + 9, 1 + 25, 16 + 0.25, 64 + 64]), rel=1e-15)


def test_random_search_comes_as_near_to_a_minimum_inside_as_chance_lets_it() -> None:
    """Of q uniform draws in a square of area 4 all miss the disc of radius r with probability (1 − πr²/4)^q."""
    chains, queries = 20, 401
    radius = np.sqrt(4 / np.pi * (1 - (1e-6 / chains) ** (1 / queries)))
    found = farout.worst_case(from_origin, Box(), torch.full((chains, 2), 0.3), method="random", steps=queries - 1)
    assert found.scores.max() < radius < 0.25
    assert found.scores.min() > 0


def test_color_by_name_halves_the_brightness_of_gray_images() -> None:
    """Of an image of one gray only brightness changes much, and its lowest factor is a half.

    Gray's weights add up to 0.9999, so contrast changes it by 0.5e-4 at most and saturation by 1e-4.
    """
    gray = torch.tensor([0.2, 0.5, 0.9])
    base = gray[:, None, None, None].expand(3, 3, 8, 8)
    found = farout.worst_case(brightness, "color", base, method=MetropolisHastings(temperature=0.05), steps=100)
    assert found.scores == pytest.approx(gray.numpy() / 2, rel=2e-4)
    assert found.latents[:, 0].tolist() == [0, 0, 0]
    assert found.images.dtype == torch.float32


def test_a_variation_without_a_base_goes_to_the_pole_of_its_sphere() -> None:
    """A score of −2 + 0.02 is an angle of 0.14 to the pole; from there on, 1 − exp(−0.14²/2σ²) > 60 % of proposals
    from the pole itself fall into it, so hundreds of cold steps do not miss it."""
    found = farout.worst_case(
        lambda points: points[:, 2], Ball(), 7, method=MetropolisHastings(temperature=1e-3), steps=400
    )
    assert len(found) == 7
    assert found.latents.norm(dim=1).numpy() == pytest.approx(np.ones(7), rel=1e-6)
    assert found.images.equal(2 * found.latents)
    assert found.scores == pytest.approx(np.full(7, -2.0), abs=2 * 0.01)
    assert found.start.std() > 0.5  # uniform on the sphere: 2/√3


@pytest.mark.parametrize("method", [*farout.search.names(), Pairs()], ids=str)
def test_scores_images_latents_and_trace_belong_together(method: Any) -> None:
    base = rows(130)
    found = farout.worst_case(from_origin, Box(), base, method=method, steps=9)
    assert found.scores.dtype == found.trace.dtype == np.float64
    assert np.array_equal(found.scores, from_origin(found.images).numpy())
    assert found.images.equal(Box().decode(found.latents, base))
    assert np.array_equal(found.trace[:, 0], found.start)
    assert np.array_equal(found.trace[:, -1], found.scores)
    assert (np.diff(found.trace) <= 0).all()
    assert len(np.unique(found.trace[0])) > 1


def test_the_trace_of_a_step_with_two_queries_moves_at_its_end() -> None:
    """Column q is what q + 1 queries found: a step of two queries ends at 3, 5, 7, …"""
    found = farout.worst_case(from_origin, Box(), rows(100), method=Pairs(), steps=4)
    assert found.trace.shape == (100, 9)
    changed = (np.diff(found.trace) < 0).any(0)
    assert changed.tolist() == [False, True] * 4


def test_the_trace_is_the_running_minimum_of_what_was_asked() -> None:
    asked: list[np.ndarray] = []

    def watching(data: Tensor) -> Tensor:
        asked.append(from_origin(data).numpy())
        return from_origin(data)

    found = farout.worst_case(watching, Box(), rows(60), inliers=INLIERS, steps=25)
    assert np.array_equal(found.trace, np.minimum.accumulate(np.stack(asked[1:], 1), axis=1))  # the first: inliers


def test_one_seed_one_result() -> None:
    first, again, other = (farout.worst_case(from_origin, Box(), rows(20), steps=20, seed=s) for s in (3, 3, 4))
    assert same(first, again)
    assert not first.latents.equal(other.latents)
    assert not np.array_equal(first.start, other.start)


def test_the_first_256_chains_do_not_know_of_those_after_them() -> None:
    base = rows(300)
    long, short = (farout.worst_case(from_origin, Box(), base[:n], steps=15) for n in (300, 256))
    assert len(long) == 300
    assert same(long, short, 256)


def test_later_chains_draw_anew() -> None:
    found = farout.worst_case(from_origin, Box(), torch.ones(512, 2), steps=3)
    assert len(np.unique(found.start)) == 512


def test_global_generators_are_neither_read_nor_changed() -> None:
    torch.manual_seed(1)
    first = farout.worst_case(from_origin, Box(), rows(5), steps=5)
    torch.manual_seed(2)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    second = farout.worst_case(from_origin, Box(), rows(5), steps=5)
    assert same(first, second)
    assert torch.get_rng_state().equal(before[0])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before[1:]  # noqa: NPY002


def test_a_detector_in_other_units_is_led_the_same_way() -> None:
    def larger(data: Tensor) -> Tensor:
        return 1000 * from_origin(data)

    plain, scaled = (farout.worst_case(f, Box(), rows(50), inliers=INLIERS, steps=60) for f in (from_origin, larger))
    assert scaled.std == pytest.approx(1000 * plain.std, rel=1e-12)
    assert scaled.latents.equal(plain.latents)
    assert np.array_equal(scaled.accepted, plain.accepted)
    hotter = farout.worst_case(from_origin, Box(), rows(50), inliers=100 * INLIERS, steps=60)
    assert hotter.accepted.mean() > plain.accepted.mean() + 0.05


def test_inliers_standardize_as_a_set_a_tensor_or_an_array() -> None:
    images = torch.rand(70, 3, 4, 4, generator=torch.Generator().manual_seed(5))
    inliers = farout.ImageSet.from_arrays(images.numpy())
    kept = inliers.batch(np.arange(70))
    found = [
        farout.worst_case(brightness, Dimmer(), kept[:5], inliers=i, steps=5) for i in (inliers, kept, kept.numpy())
    ]
    assert found[0].std == pytest.approx(np.std(brightness(kept).numpy()), rel=1e-12)
    assert same(found[0], found[1])
    assert same(found[0], found[2])


def test_without_inliers_random_variations_standardize_even_of_a_single_base() -> None:
    """The sum of two coordinates that are uniform in [−1, 1] has variance 2/3; 256 draws tell its root within
    1/√(2·256) ≈ 4.4 %, of which four are allowed."""
    found = farout.worst_case(lambda data: data.sum(1), Box(), torch.zeros(1, 2), steps=1)
    assert found.std == pytest.approx(np.sqrt(2 / 3), rel=4 / np.sqrt(512))


def test_without_inliers_all_bases_standardize() -> None:
    """Half of 256 sums lie about 0, half about 200, each half's mean within 0.82/√128 ≈ 0.07 of it."""
    base = torch.tensor([[0.0, 0.0], [100.0, 100.0]])
    assert farout.worst_case(lambda data: data.sum(1), Box(), base, steps=1).std == pytest.approx(100, abs=0.3)


def test_a_detector_that_no_variation_moves_walks_freely() -> None:
    found = farout.worst_case(lambda data: torch.zeros(len(data)), Box(), torch.zeros(3, 2), steps=30)
    assert found.scores.tolist() == [0, 0, 0]
    assert found.accepted.tolist() == [1, 1, 1]


def test_diagnostics_tell_a_free_walk_from_a_stuck_one() -> None:
    free = farout.worst_case(from_origin, Box(), rows(20), method=RandomSearch(), steps=400)
    # the spread of 401 uniform draws in two coordinates is known within 1/√(2·802) · √0.8 ≈ 2 %; five are allowed
    assert free.exploration == pytest.approx(np.ones(20), abs=0.1)
    assert not free.stuck.any()
    calls, cold = itertools.count(), MetropolisHastings(temperature=1e-9)
    frozen = farout.worst_case(
        lambda data: torch.full((len(data),), next(calls)), Box(), rows(20), inliers=rows(100), method=cold, steps=40
    )  # every score is higher than all before
    assert frozen.stuck.all()
    assert frozen.accepted.tolist() == [0] * 20
    assert frozen.exploration == pytest.approx(np.zeros(20), abs=1e-6)


def test_settings_of_a_method_by_name_are_those_of_the_object() -> None:
    ways = ("mh", MetropolisHastings(), farout.search.create("mh"), MetropolisHastings(sigma=0.5))
    named, plain, made, wide = (farout.worst_case(from_origin, Box(), rows(9), method=way, steps=9) for way in ways)
    assert same(named, plain)
    assert same(named, made)
    assert not same(named, wide)


def test_the_summary_tells_what_was_found() -> None:
    found = farout.worst_case(from_origin, Box(), torch.tensor([[3.0, 4.0]]), inliers=INLIERS, steps=200)
    assert repr(found).startswith("<Found: 1 chains, 201 queries each; mean score ")
    assert f"{np.sqrt(13):.4g} the lowest of all" in repr(found)


class Impatient:
    """A detector whose user presses Ctrl-C in its n-th call."""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    def __call__(self, data: Tensor) -> Tensor:
        self.calls -= 1
        if self.calls < 0:
            raise KeyboardInterrupt
        return from_origin(data)


def interrupted_after(calls: int) -> farout.Found:
    """300 chains: one call for the inliers, four per query of the first 256 chains, then one per query."""
    return farout.worst_case(Impatient(1 + calls), Box(), rows(300), inliers=INLIERS, steps=10)


@pytest.fixture(scope="module")
def whole() -> farout.Found:
    return farout.worst_case(from_origin, Box(), rows(300), inliers=INLIERS, steps=10)


def test_an_interrupt_keeps_the_steps_that_were_taken(whole: farout.Found) -> None:
    with pytest.warns(
        UserWarning, match="256 of 300 chains were started, the last 256 of them took 5 of 10 steps"
    ) as told:
        found = interrupted_after(4 * (1 + 5) + 2)
    assert told[0].filename == __file__
    assert len(found) == len(found.images) == 256
    assert np.array_equal(found.trace[:, :6], whole.trace[:256, :6])
    assert np.array_equal(found.scores, whole.trace[:256, 5])
    assert np.array_equal(found.trace[:, 6:], np.repeat(found.scores[:, None], 5, 1))
    assert np.array_equal(from_origin(found.images).numpy(), found.scores)


def test_an_interrupt_in_the_second_chunk_keeps_all_of_the_first(whole: farout.Found) -> None:
    with pytest.warns(UserWarning, match="300 of 300 chains were started, the last 44 of them took 3 of 10 steps"):
        found = interrupted_after(4 * 11 + 1 + 3)
    assert np.array_equal(found.scores[:256], whole.scores[:256])
    assert np.array_equal(found.scores[256:], whole.trace[256:, 3])


def test_an_interrupt_before_chains_begin_leaves_them_out(whole: farout.Found) -> None:
    with pytest.warns(UserWarning, match="256 of 300 chains were started$"):
        found = interrupted_after(4 * 11)
    assert np.array_equal(found.trace, whole.trace[:256])


def test_an_interrupt_before_any_score_is_an_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted_after(2)
