"""Mutual information of an ensemble: closed forms, its definition by entropies, precision where members agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import entropy

from farout.metrics import mutual_information


def test_members_that_agree_share_no_information() -> None:
    p = softmax(np.random.default_rng(0).normal(size=(5, 7)), 1)
    assert mutual_information(np.stack([p, p, p])) == pytest.approx(np.zeros(5), abs=1e-16)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_certain_members_that_disagree(classes: int) -> None:
    """Each member is certain of another class: the mutual information is log M, with exact zeros in all members."""
    found = mutual_information(np.eye(classes)[:, None])
    assert found == pytest.approx([np.log(classes)], abs=1e-15)


def test_one_of_two_members_is_undecided() -> None:
    """p = (1, 0) and (½, ½): H(¾, ¼) − ½ log 2."""
    expected = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25)) - 0.5 * np.log(2)
    assert mutual_information([[[1.0, 0.0]], [[0.5, 0.5]]]) == pytest.approx([expected], abs=1e-15)


def test_the_difference_of_entropies() -> None:
    p = softmax(3 * np.random.default_rng(1).normal(size=(4, 50, 6)), 2)
    expected = entropy(p.mean(0), axis=1) - entropy(p, axis=2).mean(0)
    assert mutual_information(p) == pytest.approx(expected, abs=1e-14)


def test_small_values_keep_their_digits_and_are_never_negative() -> None:
    """For p = ½ ± ε the mutual information is 2ε² + O(ε⁴); the difference of entropies would round it away."""
    epsilon = 1e-9
    pair = np.array([[[0.5 + epsilon, 0.5 - epsilon]], [[0.5 - epsilon, 0.5 + epsilon]]])
    found = mutual_information(pair)
    assert found == pytest.approx([2 * epsilon**2], rel=1e-6)
    close = softmax(np.random.default_rng(2).normal(size=(1, 500, 10)), 2) * np.ones((3, 1, 1))
    assert (mutual_information(close + 1e-17) >= 0).all()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (np.ones((2, 3)) / 3, r"shape \(2, 3\), expected \[M, N, C\]"),
        (np.ones((2, 1, 3)), "sum of 1 over classes; apply a softmax"),
        (np.array([[[1.5, -0.5]]]), "at least 0"),
        (np.array([[[np.nan, 1.0]]]), "expected probabilities"),
    ],
)
def test_wrong_inputs_are_refused(wrong: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        mutual_information(wrong)
