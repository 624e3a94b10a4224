"""klm against sums with many digits, scipy's relative entropy, and where shares vanish."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import scipy.stats
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from farout.core import Activations, NotFitted
from farout.detectors import KLM


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def reading(logits: Tensor) -> Activations:
    return Activations(logits, torch.zeros(len(logits), 1))


def softmax(row: list[float]) -> list[mpmath.mpf]:
    weights = [mpmath.exp(mpmath.mpf(value)) for value in row]
    return [weight / mpmath.fsum(weights) for weight in weights]


def slow_klm(val: Tensor, test: Tensor, digits: int = 60) -> list[float]:
    """Means and divergences one by one with many digits; a share below 2.2e-308 counts as that."""
    with mpmath.workdps(digits):
        shares, count = [softmax(row) for row in val.tolist()], val.shape[1]
        typical = []
        for k in range(count):
            own = [p for p, row in zip(shares, val.tolist(), strict=True) if row.index(max(row)) == k]
            means = [mpmath.fsum(c) / len(own) for c in zip(*own, strict=True)] or [int(k == c) for c in range(count)]
            typical.append([max(mean, mpmath.mpf(2) ** -1022) for mean in means])
        scores = []
        for p in map(softmax, test.tolist()):
            scores.append(min(mpmath.fsum(a * mpmath.log(a / b) for a, b in zip(p, d, strict=True)) for d in typical))
        return [float(score) for score in scores]


def klm(val: Tensor, test: Tensor) -> list[float]:
    scores = KLM().fit(reading(val), None).score(reading(test))
    assert scores.dtype == torch.float64
    return scores.tolist()


@pytest.mark.parametrize(("classes", "scale"), [(2, 1.0), (5, 3.0), (10, 8.0), (10, 60.0)])
def test_klm_is_the_definition(classes: int, scale: float) -> None:
    val, test = scale * draw(60, classes), scale * draw(12, classes, seed=1)
    assert klm(val, test) == pytest.approx(slow_klm(val, test, 400), rel=1e-9, abs=1e-14)


def test_klm_agrees_with_scipy() -> None:
    val, test = 2 * draw(1500, 6), 2 * draw(20, 6, seed=1)
    shares = val.double().softmax(1).numpy()
    typical = [shares[shares.argmax(1) == k].mean(0) for k in range(6)]
    expected = [min(scipy.stats.entropy(p, d) for d in typical) for p in test.double().softmax(1).numpy()]
    assert klm(val, test) == pytest.approx(expected, rel=1e-10)


def test_an_image_like_the_mean_of_its_class_scores_zero() -> None:
    val = torch.tensor([[4.0, 0, 0], [0, 4.0, 0], [0, 0, 4.0]])
    assert klm(val, val) == pytest.approx([0, 0, 0], abs=1e-15)
    assert min(klm(val, val + 1e-7 * draw(3, 3))) >= 0
    flat = klm(val, torch.zeros(1, 3))[0]
    shares = np.exp([4.0, 0, 0]) / np.exp([4.0, 0, 0]).sum()
    assert flat == pytest.approx(-np.log(shares).mean() - np.log(3), rel=1e-12)


def test_a_class_that_is_never_predicted_is_one_hot() -> None:
    """Classes 2 and 3 are not predicted: sure images of class 2 are near its one-hot, by 708 times what is missing."""
    val = 6 * torch.eye(4)[[0, 1, 0, 1]]
    gaps = torch.tensor([0.0, 2, 4, 6, 8, 10, 20, 40, 100, 700, 800, 2000])
    test = gaps[:, None] * torch.eye(4)[2]
    scores = klm(val, test)
    assert scores == pytest.approx(slow_klm(val, test, 1000), rel=1e-9, abs=1e-14)
    assert np.isfinite(scores).all()
    assert (np.diff(scores[5:]) <= 0).all()
    assert (np.diff(scores[5:9]) < 0).all()
    assert scores[-1] == 0


@pytest.mark.parametrize("gap", [800.0, 1e5, 1e30])
def test_means_that_underflow_to_one_hot_stay_finite(gap: float) -> None:
    val = gap * torch.eye(3)
    test = torch.cat([val, torch.zeros(1, 3), torch.tensor([[0.0, 1, 2], [0, 10, 20], [0, 20, 40]])])
    scores = klm(val, test)
    assert np.isfinite(scores).all()
    assert scores[:3] == [0, 0, 0]
    assert scores[3] > scores[4] > scores[5] > scores[6] > 0
    assert scores[3] == pytest.approx(2 / 3 * 1022 * np.log(2) - np.log(3), rel=1e-12)


def test_one_image_and_one_class() -> None:
    assert klm(draw(1, 5), draw(3, 5, seed=1)) == pytest.approx(slow_klm(draw(1, 5), draw(3, 5, seed=1)), rel=1e-9)
    assert klm(torch.ones(4, 1), torch.ones(2, 1)) == [0, 0]


def test_a_masked_class_counts_for_nothing() -> None:
    val, test = draw(60, 4), draw(6, 4, seed=1)
    masked = [torch.cat([part, torch.full((len(part), 1), -torch.inf)], 1) for part in (val, test)]
    assert klm(*masked) == pytest.approx(klm(val, test), rel=1e-12)


def test_long_tables_are_those_of_short_ones() -> None:
    val, test = 2 * draw(50, 4), draw(6, 4, seed=1)
    assert klm(val.repeat(50, 1), test) == pytest.approx(klm(val, test), rel=1e-12)


def test_what_cannot_be_fitted_is_said() -> None:
    with pytest.raises(ValueError, match="klm: the logits to fit on hold NaN or infinity"):
        KLM().fit(reading(draw(3, 4) / 0), None)
    with pytest.raises(NotFitted, match="klm is not fitted: call fit on the inliers' val split first"):
        KLM().score(reading(draw(3, 4)))


def test_rows_are_scored_one_by_one() -> None:
    detector = KLM().fit(reading(2 * draw(60, 5)), None)
    logits = 3 * draw(6, 5, seed=1)
    logits[1, 2] = torch.nan
    assert detector.score(reading(logits)).isnan().tolist() == [False, True, False, False, False, False]
    assert detector.score(reading(logits[:0])).shape == (0,)
    given = draw(3, 5, seed=2).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: detector.score(reading(x)), (given,))


def test_unlike_posteriors_are_the_outliers() -> None:
    """Inliers waver between a class and its neighbor, outliers between a class and the one after."""
    labels = torch.arange(300) % 6
    own, next_one, after = (torch.eye(6)[(labels + shift) % 6] for shift in range(3))
    val, inliers = (6 * own + 3 * next_one + 0.5 * draw(300, 6, seed=seed) for seed in (0, 1))
    outliers = 6 * own + 3 * after + 0.5 * draw(300, 6, seed=2)
    scores = KLM().fit(reading(val), None).score(reading(torch.cat([inliers, outliers])))
    assert roc_auc_score(np.arange(600) >= 300, scores) > 0.95
