"""Precision, recall, density and coverage: a slow reference, closed forms on a line, blocks of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from farout.metrics import manifold, prdc
from farout.metrics.intervals import clopper_pearson_bounds


def slow(real: Any, generated: Any, k: int) -> tuple[float, float, float, float]:
    """Kynkäänniemi et al. 2019, section 2; Naeem et al. 2020, section 3; pair by pair."""

    def radius(rows: Any, i: int) -> float:
        return sorted(float(np.linalg.norm(rows[i] - rows[j])) for j in range(len(rows)) if j != i)[k - 1]

    real_radii = [radius(real, i) for i in range(len(real))]
    generated_radii = [radius(generated, j) for j in range(len(generated))]
    inside = [[np.linalg.norm(x - y) <= r for x, r in zip(real, real_radii, strict=True)] for y in generated]
    around = [[np.linalg.norm(x - y) <= r for y, r in zip(generated, generated_radii, strict=True)] for x in real]
    return (
        float(np.mean([any(row) for row in inside])),
        float(np.mean([any(row) for row in around])),
        float(np.sum(inside) / (k * len(generated))),
        float(np.mean(np.any(inside, axis=0))),
    )


def draw(count: int, dim: int, seed: int, shift: float = 0.0, scale: float = 1.0) -> Any:
    return scale * np.random.default_rng(seed).normal(size=(count, dim)) + shift


@pytest.mark.parametrize(("k", "dim"), [(1, 2), (3, 2), (5, 10)])
def test_a_slow_reference(k: int, dim: int) -> None:
    real, generated = draw(60, dim, 0), draw(45, dim, 1, shift=1.5)
    found = prdc(real, generated, k=k)
    assert [one.value for one in found] == pytest.approx(slow(real, generated, k), abs=1e-15)
    assert 0.05 < found.precision.value < 1
    assert 0.05 < found.coverage.value < 1


def test_on_a_line() -> None:
    """Real images at 0, 1, 2, 3 with k = 1 have balls of radius 1."""
    found = prdc(np.arange(4.0)[:, None], np.array([[0.5], [10.0], [11.0]]), k=1)
    assert found.precision.value == pytest.approx(1 / 3)  # only 0.5, in the balls of 0 and 1
    assert found.density.value == pytest.approx(2 / 3)
    assert found.coverage.value == pytest.approx(2 / 4)
    assert found.recall.value == 1.0  # the ball of 0.5 reaches to 10


def test_a_set_and_itself() -> None:
    real = draw(40, 3, 2)
    found = prdc(real, real, k=4)
    assert found.precision.value == found.recall.value == found.coverage.value == 1.0
    assert found.density.value == pytest.approx(1.25)  # its own ball and, on average, those of 4 neighbors


def test_far_away_nothing_matches() -> None:
    found = prdc(draw(30, 3, 3), draw(30, 3, 4, shift=100.0))
    assert [one.value for one in found] == [0.0] * 4
    assert found.precision.high == pytest.approx(clopper_pearson_bounds(0.0, 30, 0.025)[1])


def test_a_large_common_shift_changes_nothing() -> None:
    real, generated = draw(60, 4, 5), draw(60, 4, 6, shift=0.5)
    near, far = prdc(real, generated), prdc(real + 1e5, generated + 1e5)
    assert [one.value for one in near] == [one.value for one in far]


def test_the_size_of_the_blocks_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    real, generated = draw(50, 3, 7), draw(37, 3, 8, shift=0.5)
    whole = prdc(real, generated)
    monkeypatch.setattr(manifold, "_BLOCK", 100)
    assert prdc(real, generated) == whole


def test_intervals_of_equal_distributions_contain_the_density_of_one() -> None:
    covered = 0
    for seed in range(20):
        found = prdc(draw(400, 2, seed), draw(400, 2, 100 + seed))
        covered += found.density.low <= 1 <= found.density.high
        assert found.density.low < found.density.value < found.density.high
    assert covered >= 12  # the real images, which the interval takes as given, vary too


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"k": 10}, "k is 10 for 10 real images"),
        ({"k": 0}, "k is 0"),
        ({"generated": draw(5, 3, 0)}, "k is 5 for 5 generated images"),
        ({"generated": draw(20, 2, 0)}, "features have 3 and 2 dimensions"),
        ({"real": np.ones(4)}, r"expected \[N, D\]"),
    ],
)
def test_wrong_inputs_are_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        prdc(**{"real": draw(10, 3, 0), "generated": draw(20, 3, 1), **arguments})
