"""Holm's correction against figures worked out by hand, and its guarantee in simulation."""

from __future__ import annotations

import numpy as np
import pytest

from farout.metrics import holm


def test_adjusted_p_values_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])  # 3 · .01, 2 · .03, and at least that
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([0.02]) == pytest.approx([0.02])
    assert holm([]).size == 0


def test_false_rejections_are_as_rare_as_promised() -> None:
    p = np.random.default_rng(0).random((4000, 10))
    any_rejected = np.mean([holm(row).min() < 0.05 for row in p])
    assert any_rejected == pytest.approx(1 - (1 - 0.05 / 10) ** 10, abs=0.012)
    assert (p.min(axis=1) < 0.05).mean() > 0.35  # without a correction


@pytest.mark.parametrize("p_values", [[0.1, 1.2], [-0.1], [float("nan")], [[0.1]]])
def test_other_numbers_are_refused(p_values: list[float]) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        holm(p_values)
