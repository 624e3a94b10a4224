"""Calibration: closed forms, a slow reference, intervals of networks whose calibration error is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from farout.metrics import ece, ece_interval, reliability


def slow_ece(confidence: Any, correct: Any, bins: int) -> float:
    """Guo et al. 2017, eq. 3, bin by bin."""
    total = 0.0
    for k in range(bins):
        members = [i for i, c in enumerate(confidence) if k / bins < c <= (k + 1) / bins or (k == 0 and c == 0)]
        if members:
            accuracy = sum(correct[i] for i in members) / len(members)
            total += len(members) * abs(accuracy - sum(confidence[i] for i in members) / len(members))
    return total / len(confidence)


@pytest.mark.parametrize("bins", [1, 10, 15])
def test_a_slow_reference(bins: int) -> None:
    rng = np.random.default_rng(bins)
    confidence, correct = rng.random(200).round(2), rng.random(200) < 0.6  # two digits: many lie on an edge
    confidence[:3] = 0.0, 1.0, 0.5
    assert ece(confidence, correct, bins) == pytest.approx(slow_ece(confidence, correct, bins), abs=1e-14)


@pytest.mark.parametrize("binning", ["width", "mass"])
@pytest.mark.parametrize(
    ("confidence", "correct", "expected"),
    [
        ([0.8] * 5, [1, 1, 1, 1, 0], 0.0),
        ([0.9] * 5, [1, 1, 1, 1, 0], 0.1),
        ([1.0] * 4, [0, 0, 0, 0], 1.0),
        ([0.0] * 4, [0, 0, 0, 0], 0.0),
        ([0.6, 0.6, 0.9, 0.9], [1, 1, 1, 0], 0.4),
        ([0.6, 0.9], [True, False], 0.65),
    ],
)
def test_closed_forms(confidence: list[float], correct: list[int], expected: float, binning: Any) -> None:
    assert ece(confidence, correct, binning=binning) == pytest.approx(expected, abs=1e-15)


def test_an_upper_edge_belongs_to_its_bin() -> None:
    diagram = reliability([0.0, 0.25, 0.5, 0.500001, 1.0], [0, 1, 1, 1, 1], bins=4)
    assert diagram.counts.tolist() == [2, 1, 1, 1]
    assert diagram.low.tolist() == [0, 0.25, 0.5, 0.75]
    assert diagram.high.tolist() == [0.25, 0.5, 0.75, 1]


def test_a_diagram_has_counts_and_means() -> None:
    diagram = reliability([0.1, 0.3, 0.9, 0.7], [0, 1, 1, 0], bins=2)
    assert diagram.counts.tolist() == [2, 2]
    assert diagram.confidence == pytest.approx([0.2, 0.8])
    assert diagram.accuracy == pytest.approx([0.5, 0.5])
    assert diagram.ece == pytest.approx(0.3)
    empty = reliability([0.9], [1], bins=2)
    assert np.isnan([empty.confidence[0], empty.accuracy[0]]).all()
    assert empty.ece == pytest.approx(0.1)


def test_bins_of_equal_mass() -> None:
    confidence = np.linspace(0.9, 1, 1003)
    rng = np.random.default_rng(0)
    diagram = reliability(confidence, rng.random(1003) < confidence, bins=10, binning="mass")
    assert set(diagram.counts.tolist()) == {100, 101}
    assert (diagram.low[1:] > diagram.high[:-1]).all()
    assert (np.diff(diagram.confidence) > 0).all()
    together = reliability([0.5] * 7 + [0.9], [1] * 8, bins=4, binning="mass")
    assert together.counts.tolist() == [7, 0, 0, 1]


def test_the_order_of_the_images_does_not_matter() -> None:
    rng = np.random.default_rng(1)
    confidence = rng.random(300).round(1)
    correct, order = rng.random(300) < confidence, rng.permutation(300)
    for binning in ("width", "mass"):
        found = ece(confidence[order], correct[order], binning=binning)  # type: ignore[arg-type]
        assert found == pytest.approx(ece(confidence, correct, binning=binning), abs=1e-15)  # type: ignore[arg-type]


def test_the_estimate_of_a_calibrated_network_is_its_documented_bias() -> None:
    rng = np.random.default_rng(0)
    confidence = rng.random((20, 10_000))
    found = np.mean([ece(row, rng.random(10_000) < row) for row in confidence])
    assert found == pytest.approx(0.012, abs=0.0015)


@pytest.mark.parametrize(("gap", "least"), [(0.0, 0.9), (0.1, 0.85)])
def test_intervals_cover_the_known_error(gap: float, least: float) -> None:
    """Confidences that are `gap` too large; at most 4 of 40 intervals, or 6, may miss."""
    rng = np.random.default_rng(2)
    covered = 0
    for seed in range(40):
        confidence = 1 - 0.6 * rng.beta(1, 4, 1000)
        found = ece_interval(confidence, rng.random(1000) < confidence - gap, resamples=100, seed=seed)
        assert found.low <= found.value <= found.high
        covered += found.low <= gap <= found.high
    assert covered / 40 >= least


def test_an_interval_repeats_with_its_seed() -> None:
    rng = np.random.default_rng(3)
    confidence = rng.random(100)
    correct = rng.random(100) < 0.5
    first, again, other = (ece_interval(confidence, correct, resamples=50, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert first.value == pytest.approx(ece(confidence, correct), abs=1e-15)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([0.5], [1, 0]), "got 1 confidences and 2 values of correct"),
        (([1.5], [1]), r"from 1.5 to 1.5, expected probabilities in \[0, 1\]"),
        (([0.5], [2]), "correct must hold True or False"),
        (([], []), "got 0 confidence scores"),
        (([float("nan")], [1]), "not finite"),
        (([0.5], [1], 0), "bins is 0, expected a whole number from 1"),
        (([0.5], [1], 2.5), "bins is 2.5"),
    ],
)
def test_wrong_inputs_are_refused(arguments: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ece(*arguments)


def test_an_unknown_binning_is_refused() -> None:
    with pytest.raises(ValueError, match='binning is \'equal\', expected "width" or "mass"'):
        ece([0.5], [1], binning="equal")  # type: ignore[arg-type]
