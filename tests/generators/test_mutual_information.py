"""Mutual information as a loss: closed forms, bounds, extreme logits, and its gradient."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from farout.generators.information import mutual_information


def logits(*shape: int, scale: float = 2.0) -> Tensor:
    return scale * torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("members", "classes", "expected"), [(4, 10, 4), (6, 10, 6), (3, 2, 1.889881574842311)])
def test_members_that_are_sure_of_different_classes(members: int, classes: int, expected: float) -> None:
    """ln T if there are enough classes; of three members and two classes, the entropy of (2/3, 1/3)."""
    sure = torch.zeros(1, members, classes).double()
    for member in range(members):
        sure[0, member, member % classes] = 1e3
    assert mutual_information(sure).item() == pytest.approx(math.log(expected), abs=1e-9)


def test_one_unsure_member() -> None:
    """p1 = (1, 0), p2 = (1/2, 1/2): H(3/4, 1/4) − ln 2 / 2."""
    found = mutual_information(torch.tensor([[[500.0, -500.0], [1.0, 1.0]]]))
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert found.item() == pytest.approx(entropy - math.log(2) / 2, abs=1e-6)


def test_agreement_is_zero() -> None:
    same = logits(5, 1, 7).expand(5, 4, 7)
    assert mutual_information(same).abs().max() < 1e-12


def test_it_is_the_difference_of_entropies() -> None:
    values = logits(20, 4, 6)
    p = values.softmax(2)
    mean = p.mean(1)
    expected = -(mean * mean.log()).sum(1) + (p * p.log()).sum(2).mean(1)
    assert torch.allclose(mutual_information(values), expected, atol=1e-12)
    assert (mutual_information(values) <= math.log(4)).all()


def test_extreme_logits_have_finite_values_and_gradients() -> None:
    values = torch.tensor([[[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0]], [[1e4, 0, 0], [1e4, 0, 0]]], requires_grad=True)
    found = mutual_information(values)
    found.sum().backward()
    assert found.tolist() == pytest.approx([math.log(2), 0.0], abs=1e-6)
    assert values.grad is not None
    assert values.grad.isfinite().all()


def test_gradient_is_the_closed_form_and_passes_gradcheck() -> None:
    values = logits(3, 4, 5).requires_grad_()
    assert torch.autograd.gradcheck(mutual_information, values)
    (found,) = torch.autograd.grad(mutual_information(values).sum(), values)
    p = values.detach().softmax(2)
    ratio = (p / p.mean(1, keepdim=True)).log()
    divergence = (p * ratio).sum(2, keepdim=True)
    assert torch.allclose(found, p * (ratio - divergence) / 4, atol=1e-12)


def test_gradient_vanishes_at_consensus() -> None:
    values = logits(3, 1, 5).repeat(1, 4, 1).requires_grad_()
    mutual_information(values).sum().backward()
    assert values.grad is not None
    assert values.grad.abs().max() < 1e-12


def test_half_precision_is_computed_in_single() -> None:
    assert mutual_information(logits(2, 3, 4).bfloat16()).dtype == torch.float32
    with pytest.raises(ValueError, match=r"expected the members' logits \[N, T, C\], got shape \[2, 3\]"):
        mutual_information(torch.zeros(2, 3))
