"""ensemble against sums with many digits, where members agree and where they are sure."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from farout.core import Activations
from farout.detectors import Ensemble, Entropy

KINDS = ("entropy", "mutual_information")


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def reading(members: Tensor) -> Activations:
    logits = members.double().softmax(2).mean(1).log().float()
    return Activations(logits, torch.zeros(len(members), 1), members=members)


def entropy(shares: list[mpmath.mpf]) -> mpmath.mpf:
    return -mpmath.fsum(p * mpmath.log(p) for p in shares if p)


def softmax(row: list[float]) -> list[mpmath.mpf]:
    weights = [mpmath.exp(mpmath.mpf(value)) for value in row]
    return [weight / mpmath.fsum(weights) for weight in weights]


def slow(kind: str, members: Tensor, digits: int = 120) -> list[float]:
    """H(mean p), less mean H(p) for the mutual information, with many digits."""
    scores = []
    with mpmath.workdps(digits):
        for rows in members.tolist():
            shares = [softmax(row) for row in rows]
            mean = entropy([mpmath.fsum(column) / len(rows) for column in zip(*shares, strict=True)])
            own = mpmath.fsum(entropy(p) for p in shares) / len(rows)
            scores.append(float(mean if kind == "entropy" else mean - own))
    return scores


def scores(kind: str, members: Tensor) -> list[float]:
    found = Ensemble(kind=kind).score(reading(members))  # type: ignore[arg-type]
    assert found.dtype == torch.float64
    return found.tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("count", "classes", "scale"), [(2, 2, 1.0), (5, 10, 3.0), (5, 10, 30.0), (3, 100, 8.0)])
def test_scores_are_the_definitions(kind: str, count: int, classes: int, scale: float) -> None:
    members = scale * draw(8, count, classes)
    assert scores(kind, members) == pytest.approx(slow(kind, members), rel=1e-11)


@pytest.mark.parametrize("spread", [0.3, 0.05, 1e-2, 1e-4, 1e-6])
def test_the_mutual_information_of_members_that_agree_keeps_its_digits(spread: float) -> None:
    members = draw(8, 1, 6) + spread * draw(8, 5, 6, seed=1)
    assert min(scores("mutual_information", members)) > 0
    assert scores("mutual_information", members) == pytest.approx(slow("mutual_information", members), rel=1e-7)


def test_sure_members_do_not_tie() -> None:
    gaps = torch.tensor([10.0, 20, 36, 40, 80, 200, 600])
    members = torch.stack([torch.stack([gaps * f, 0 * gaps, 0 * gaps - 1], 1) for f in (1.0, 1.05)], 1)
    for kind in KINDS:
        found = scores(kind, members)
        assert (np.diff(found) < 0).all()
        assert found == pytest.approx(slow(kind, members, 800), rel=1e-10)


def test_closed_forms() -> None:
    same = draw(4, 1, 5).expand(4, 3, 5)
    alone = Entropy().score(Activations(same[:, 0], torch.zeros(4, 1))).tolist()
    assert scores("entropy", same) == pytest.approx(alone, rel=1e-13)
    assert scores("mutual_information", same) == pytest.approx([0] * 4, abs=1e-25)
    apart = 2000 * torch.eye(3)[None]
    assert scores("entropy", apart) == pytest.approx([math.log(3)], rel=1e-14)
    assert scores("mutual_information", apart) == pytest.approx([math.log(3)], rel=1e-14)


def test_the_entropy_of_one_network_is_that_of_its_softmax() -> None:
    alone = Activations(3 * draw(6, 5), torch.zeros(6, 1))
    assert torch.equal(Ensemble().score(alone), Entropy().score(alone))
    Ensemble().check_network(alone)


def test_mutual_information_takes_an_ensemble() -> None:
    alone, detector = Activations(draw(6, 5), torch.zeros(6, 1)), Ensemble(kind="mutual_information")
    for ask in (detector.check_network, detector.score):
        with pytest.raises(ValueError, match=r'mutual_information compares the members.*none.*kind="entropy"'):
            ask(alone)
    detector.check_network(reading(draw(6, 2, 5)))
    with pytest.raises(ValueError, match="kind must be one of entropy, mutual_information, got 'variance'"):
        Ensemble(kind="variance")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_a_masked_class_counts_for_nothing(kind: str) -> None:
    members = draw(6, 3, 4)
    masked = torch.cat([members, torch.full((6, 3, 1), -torch.inf)], 2)
    assert scores(kind, masked) == pytest.approx(scores(kind, members), rel=1e-13)
    members[:, 0, 2] = -torch.inf
    assert scores(kind, members) == pytest.approx(slow(kind, members), rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_scored_one_by_one(kind: str) -> None:
    members = draw(6, 3, 4)
    whole = scores(kind, members)
    assert scores(kind, members[2:3]) == pytest.approx(whole[2:3], rel=1e-13)
    assert scores(kind, members[:0]) == []
    members[1, 0, 2] = torch.nan
    assert np.isnan(scores(kind, members)).tolist() == [False, True, False, False, False, False]
    detector = Ensemble(kind=kind)  # type: ignore[arg-type]
    given = draw(2, 3, 4, seed=2).double().requires_grad_()
    close = (draw(2, 1, 4, seed=3) + 1e-2 * draw(2, 3, 4, seed=4)).double().requires_grad_()
    for rows in (given, close):
        assert torch.autograd.gradcheck(lambda x: detector.score(reading(x)), (rows,))


@pytest.mark.parametrize("kind", KINDS)
def test_where_members_disagree_are_the_outliers(kind: str) -> None:
    inliers, outliers = draw(200, 5, 10, seed=1), draw(200, 5, 10, seed=2)
    inliers[torch.arange(200), :, torch.arange(200) % 10] += 8
    outliers += 8 * torch.eye(10)[torch.randint(10, (200, 5), generator=torch.Generator().manual_seed(3))]
    found = scores(kind, torch.cat([inliers, outliers]))
    assert roc_auc_score(np.arange(400) >= 200, found) > 0.95
