"""temp_scaling against scipy's minimizer and a bisection, OpenOOD's steps, and where there is no minimum."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from sklearn.metrics import roc_auc_score
from torch import Tensor

from farout.core import Activations, NotFitted
from farout.detectors import MSP, TempScaling
from farout.detectors.posthoc.temp_scaling import cross_entropy


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def reading(logits: Tensor) -> Activations:
    return Activations(logits, torch.zeros(len(logits), 1))


def validation(total: int = 1500, classes: int = 10, scale: float = 1.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits that are calibrated at T = scale: labels are drawn from softmax(logits / scale)."""
    logits = 2 * draw(total, classes, seed=seed)
    labels = torch.multinomial(logits.softmax(1), 1, generator=torch.Generator().manual_seed(seed + 1)).squeeze(1)
    return scale * logits, labels


def fitted(logits: Tensor, labels: Tensor, **params: str) -> TempScaling:
    return TempScaling(**params).fit(reading(logits), labels)  # type: ignore[arg-type]


def temperature(logits: Tensor, labels: Tensor, **params: str) -> float:
    return fitted(logits, labels, **params).fitted("temperature").item()


def slow_cross_entropy(logits: Tensor, labels: Tensor, t: float) -> float:
    total = []
    for row, label in zip(logits.double().tolist(), labels.tolist(), strict=True):
        top = max(row)
        total.append(math.log(math.fsum(math.exp((x - top) / t) for x in row)) - (row[label] - top) / t)
    return math.fsum(total) / len(total)


@pytest.mark.parametrize("scale", [1e-3, 0.3, 1.0, 4.0, 1e3])
@pytest.mark.parametrize("classes", [2, 10])
def test_the_temperature_has_the_least_cross_entropy(scale: float, classes: int) -> None:
    logits, labels = validation(300, classes, scale)

    def loss(log: float) -> float:
        return slow_cross_entropy(logits, labels, math.exp(log))

    best = minimize_scalar(
        loss, bounds=(math.log(scale / 10), math.log(scale * 10)), method="bounded", options={"xatol": 1e-9}
    )
    found = temperature(logits, labels)
    assert found == pytest.approx(math.exp(best.x), rel=1e-6)
    assert loss(math.log(found)) <= best.fun + 1e-14


@pytest.mark.parametrize("kind", ["one wrong", "many wrong", "long tail", "tiny", "huge"])
@pytest.mark.parametrize("seed", range(8))
def test_the_temperature_is_where_the_slope_changes_sign(kind: str, seed: int) -> None:
    logits = 3 * draw(40, 5, seed=seed) ** (3 if kind == "long tail" else 1)
    logits *= {"tiny": 1e-6, "huge": 1e6}.get(kind, 1.0)
    labels = logits.argmax(1).roll(20 if kind == "many wrong" else 0)
    labels[0] = logits[0].argmin()
    spread = (logits.double().amax(1) - logits.double().amin(1)).mean().item()
    low, high = math.log(spread / 100), math.log(1000 * spread)
    for _ in range(60):
        middle = (low + high) / 2
        falling = cross_entropy(reading(logits), labels, math.exp(middle))[1] < 0
        low, high = (middle, high) if falling else (low, middle)
    assert temperature(logits, labels) == pytest.approx(math.exp(low), rel=1e-6)


def test_cross_entropy_and_its_slope() -> None:
    logits, labels = validation(1300, 7)
    for t in (0.05, 1.0, 30.0):
        value, slope = cross_entropy(reading(logits), labels, t)
        assert value == pytest.approx(slow_cross_entropy(logits, labels, t), rel=1e-12)
        step = 1e-5 * t
        ends = [slow_cross_entropy(logits, labels, t + sign * step) for sign in (-1, 1)]
        assert slope == pytest.approx((ends[1] - ends[0]) / (2 * step), rel=1e-5)


def test_scores_are_those_of_msp_on_logits_over_the_temperature() -> None:
    logits, labels = validation(300, 10, 2.5)
    test = 8 * draw(20, 10, seed=3)
    detector = fitted(logits, labels)
    t = detector.fitted("temperature").item()
    scores = detector.score(reading(test))
    assert scores.dtype == torch.float64
    for score, row in zip(scores.tolist(), test.tolist(), strict=True):
        weights = [math.exp((x - max(row)) / t) for x in row]
        assert score == pytest.approx((math.fsum(weights) - 1) / math.fsum(weights), rel=1e-9)


def test_at_temperature_one_it_is_msp() -> None:
    detector, test = TempScaling(), reading(8 * draw(50, 10))
    detector.state = {"temperature": torch.tensor(1.0, dtype=torch.float64)}
    assert torch.equal(detector.score(test), MSP().score(test))


def test_two_classes_rank_alike_at_any_temperature() -> None:
    logits, labels = validation(300, 2, 3.0)
    test = reading(5 * draw(100, 2, seed=4))
    ours, msp = fitted(logits, labels).score(test), MSP().score(test)
    assert torch.equal(ours.argsort(), msp.argsort())


def test_the_temperature_scales_with_the_logits() -> None:
    logits, labels = validation(300)
    assert temperature(1000 * logits, labels) == pytest.approx(1000 * temperature(logits, labels), rel=1e-6)


@pytest.mark.parametrize("total", [1, 40])
def test_where_all_are_right_the_temperature_stays_above_its_bound(total: int) -> None:
    logits = draw(total, 4)
    logits[torch.arange(total), torch.arange(total) % 4] += 10
    detector = fitted(logits, torch.arange(total) % 4)
    leads = sorted(first - second for *_, second, first in map(sorted, logits.double().tolist()))
    assert detector.fitted("temperature").item() == pytest.approx(leads[(total - 1) // 2] / 100, rel=1e-12)
    scores = detector.score(reading(torch.cat([logits, torch.zeros(1, 4)])))
    assert scores.isfinite().all()
    assert (scores[:-1] > 0).all()
    assert scores[:-1].unique().numel() == total
    assert scores[-1].item() == 0.75


def test_where_all_are_wrong_the_temperature_stays_below_its_bound() -> None:
    logits = torch.tensor([[0.0, 5.0], [0.0, 5.0]])
    assert temperature(logits, torch.tensor([0, 0])) == pytest.approx(5000, rel=1e-12)
    assert temperature(logits[:1], torch.tensor([0])) == pytest.approx(5000, rel=1e-12)


@pytest.mark.parametrize("classes", [1, 3])
def test_flat_logits_leave_the_temperature_at_one(classes: int) -> None:
    assert temperature(torch.full((5, classes), 2.0), torch.zeros(5, dtype=torch.long)) == 1.0


@pytest.mark.parametrize("mask", [-1e4, -1e9, -1e30])
def test_classes_masked_by_a_large_number_count_for_nothing(mask: float) -> None:
    logits, labels = validation(300, 4)
    masked = torch.cat([logits, torch.full((300, 6), mask)], 1)
    assert temperature(masked, labels) == pytest.approx(temperature(logits, labels), rel=1e-9)


def test_a_few_huge_logits_do_not_set_the_bound() -> None:
    logits, labels = validation(300, 4)
    huge = torch.cat([logits, 1e9 * torch.eye(4)])
    assert temperature(huge, torch.cat([labels, torch.arange(4)])) == pytest.approx(
        temperature(logits, labels), rel=1e-9
    )


def test_without_a_largest_logit_the_temperature_stays_at_one() -> None:
    assert temperature(torch.tensor([[2.0, 2.0, 0.0]] * 5), torch.zeros(5, dtype=torch.long)) == 1.0


def test_a_masked_class_counts_for_nothing() -> None:
    logits, labels = validation(300, 4)
    masked = torch.cat([logits, torch.full((300, 1), -torch.inf)], 1)
    assert temperature(masked, labels) == pytest.approx(temperature(logits, labels), rel=1e-9)
    with pytest.raises(ValueError, match="temp_scaling: some labels are classes that the network masks"):
        temperature(masked, torch.full((300,), 4))


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_the_openood_variant_makes_its_few_steps(scale: float) -> None:
    logits, labels = validation(300, 10, scale)
    free = torch.nn.Parameter(torch.full((1,), 1.5, dtype=torch.float64))
    optimizer = torch.optim.LBFGS([free], lr=0.01, max_iter=50)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(logits.double() / free, labels)
        loss.backward()
        return loss

    optimizer.step(closure)
    found, best = temperature(logits, labels, variant="openood"), temperature(logits, labels)
    assert found == pytest.approx(free.item(), rel=1e-9)
    assert 0 < (found - 1.5) / (best - 1.5) < 0.8


def test_openoods_steps_may_lead_below_zero() -> None:
    """The curvature is near zero at T = 1.5, so that the second step goes far."""
    logits, labels = torch.tensor([[3.0433, 3.1653], [7.9469, 1.6513]]), torch.tensor([1, 0])
    with pytest.raises(ValueError, match=r"OpenOOD's steps lead to T = -.* on these logits; use variant=\"paper\""):
        temperature(logits, labels, variant="openood")
    assert temperature(logits, labels) > 0


def test_fitting_works_without_gradients() -> None:
    logits, labels = validation(100)
    with torch.inference_mode():
        inside = temperature(logits.clone(), labels)
    assert inside == temperature(logits, labels)


def test_what_cannot_be_fitted_is_said() -> None:
    logits, labels = validation(20, 4)
    with pytest.raises(ValueError, match="temp_scaling needs the class of every validation image"):
        TempScaling().fit(reading(logits), None)
    for wrong in (-1, 4):
        with pytest.raises(ValueError, match=r"temp_scaling: labels run from .* to .*, the network has 4 classes"):
            temperature(logits, labels.where(torch.arange(20) > 0, wrong))
    with pytest.raises(ValueError, match="temp_scaling: the logits to fit on hold NaN or infinity"):
        temperature(logits.where(torch.arange(20)[:, None] > 0, torch.nan), labels)
    with pytest.raises(ValueError, match="variant must be one of paper, openood, got 'guo'"):
        TempScaling(variant="guo")  # type: ignore[arg-type]
    with pytest.raises(NotFitted, match="temp_scaling is not fitted: call fit on the inliers' val split first"):
        TempScaling().score(reading(logits))


def test_rows_are_scored_one_by_one() -> None:
    detector = fitted(*validation(100, 5))
    logits = 3 * draw(6, 5, seed=1)
    logits[1, 2] = torch.nan
    assert detector.score(reading(logits)).isnan().tolist() == [False, True, False, False, False, False]
    assert detector.score(reading(logits[:0])).shape == (0,)
    given = draw(3, 5, seed=2).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: detector.score(reading(x)), (given,))


def test_unsure_images_are_the_outliers() -> None:
    inliers, outliers = draw(200, 10, seed=1), draw(200, 10, seed=2)
    inliers[torch.arange(200), torch.arange(200) % 10] += 8
    scores = fitted(*validation()).score(reading(torch.cat([inliers, outliers])))
    assert roc_auc_score(np.arange(400) >= 200, scores) > 0.95
