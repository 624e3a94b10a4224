"""Interval of mutual information: the rule on values with a known answer, and the published intervals."""

from __future__ import annotations

import numpy as np
import pytest

from farout.generators.mi_interval import PUBLISHED, MIInterval, overlap_by_bound, parse_interval, select_interval
from farout.registry import UnknownName


def values(*masses: float, total: int = 1000) -> np.ndarray:
    """Values in the middle of the bins 0 to 0.1, 0.1 to 0.2, …, with these fractions."""
    return np.concatenate([np.full(round(mass * total), 0.05 + 0.1 * bin) for bin, mass in enumerate(masses)])


def test_example_with_a_known_answer() -> None:
    validation = values(0.95, 0.035, 0.01, 0.005)
    generated = values(0.2, 0.2, 0.15, 0.15, 0.15, 0.15)
    overlaps = overlap_by_bound(validation, generated)
    assert overlaps[1] == pytest.approx(0.05)
    assert overlaps[2] == pytest.approx(0.015)
    assert select_interval(validation, generated) == MIInterval(0.2, 0.6)


def test_restricted_histogram_is_normalized_again() -> None:
    validation, generated = values(0.5, 0.5), values(0.8, 0.1, 0, 0, 0, 0.1)
    overlaps = overlap_by_bound(validation, generated)
    assert overlaps[0] == pytest.approx(0.5 + 1 / 9)
    assert overlaps[1] == pytest.approx(0.5), "all generated ones in [0.1, 0.5] lie in the first bin"
    assert overlaps[2:6] == pytest.approx([0.0] * 4)
    assert select_interval(validation, generated) == MIInterval(0.2, 0.6)


def test_lowest_of_equal_overlaps() -> None:
    assert select_interval(values(1), values(0, 0, 0.5, 0.5)) == MIInterval(0, 0.4)
    assert select_interval(values(0.5, 0.5), values(0, 0.1, 0.3, 0.6)) == MIInterval(0.2, 0.6)


def test_gain_below_the_tolerance_does_not_count() -> None:
    assert select_interval(values(0.981, 0.019), values(0, 0.5, 0.5)).low == 0.0
    assert select_interval(values(0.97, 0.03), values(0, 0.5, 0.5)).low == 0.2


@pytest.mark.parametrize("value", [0.0, 0.3, 1.386])
def test_equal_values(value: float) -> None:
    interval = select_interval(np.full(9, value), np.full(7, value))
    assert interval.contains(np.array([value])).all()
    assert interval.high == pytest.approx(interval.low + 0.4)


def test_bounds_without_generated_images_are_not_candidates() -> None:
    validation, generated = values(0, 0, 0, 0, 0, 1), values(1)
    assert np.isnan(overlap_by_bound(validation, generated)[1:]).all()
    assert select_interval(validation, generated) == MIInterval(0, 0.4)


def test_values_at_a_bound_belong_above_it() -> None:
    assert overlap_by_bound([0.1 + 0.2], [0.3])[3] == 1.0


def test_nothing_to_select_from() -> None:
    with pytest.raises(ValueError, match="MI of generated images must be finite numbers, at least one, got 0 values"):
        select_interval([0.1], [])
    with pytest.raises(ValueError, match="MI of validation images"):
        select_interval([np.nan], [0.1])


def test_named_intervals() -> None:
    assert parse_interval("cifar10") == (0.2, 0.6) == PUBLISHED["cifar10"]
    assert parse_interval("auto") is None
    assert parse_interval([0.3, 0.7]) == MIInterval(0.3, 0.7)
    with pytest.raises(UnknownName, match="Did you mean 'cifar10'"):
        parse_interval("cifar_10")
    with pytest.raises(ValueError, match="two numbers from 0 on in ascending order"):
        parse_interval([0.7, 0.3])


def test_interval_is_closed() -> None:
    assert MIInterval(0.1, 0.5).contains(np.array([0.09, 0.1, 0.5, 0.51])).tolist() == [False, True, True, False]
