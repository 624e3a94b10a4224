"""The logit detectors against sums with many digits, also where the softmax saturates."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from farout.core import Activations
from farout.detectors import EBO, GEN, MLS, MSP, Entropy, create

LOGIT_DETECTORS = ("msp", "entropy", "mls", "ebo", "gen")


def reading(logits: torch.Tensor) -> Activations:
    return Activations(logits, torch.zeros(len(logits), 1))


def random_logits(rows: int, classes: int, scale: float, seed: int = 0) -> torch.Tensor:
    return scale * torch.randn(rows, classes, generator=torch.Generator().manual_seed(seed))


def reference(name: str, logits: torch.Tensor, temperature: float = 1.0, digits: int = 60) -> list[float]:
    """The definitions, row by row with many digits, from the float32 logits as they are."""
    with mpmath.workdps(digits):
        return [float(_row(name, [mpmath.mpf(value) for value in row], temperature)) for row in logits.tolist()]


def _row(name: str, row: list[mpmath.mpf], temperature: float) -> mpmath.mpf:
    total = mpmath.fsum(mpmath.exp(value) for value in row)
    shares = [mpmath.exp(value) / total for value in row]
    match name:
        case "msp":
            return 1 - max(shares)
        case "entropy":
            return -mpmath.fsum(share * mpmath.log(share) for share in shares)
        case "mls":
            return -max(row)
        case "gen":
            return mpmath.fsum((share * (1 - share)) ** mpmath.mpf(0.1) for share in sorted(shares)[-100:])
    return -temperature * mpmath.log(mpmath.fsum(mpmath.exp(value / temperature) for value in row))


@pytest.mark.parametrize("name", LOGIT_DETECTORS)
@pytest.mark.parametrize(("classes", "scale"), [(2, 1.0), (10, 5.0), (10, 60.0), (100, 20.0), (130, 3.0)])
def test_scores_are_the_definitions(name: str, classes: int, scale: float) -> None:
    logits = random_logits(10, classes, scale)
    scores = create(name).score(reading(logits))
    assert scores.dtype == torch.float64
    np.testing.assert_allclose(scores.numpy(), reference(name, logits), rtol=1e-12, atol=0)


@pytest.mark.parametrize("temperature", [0.1, 2.0, 1000.0])
def test_the_energy_takes_a_temperature(temperature: float) -> None:
    logits = random_logits(10, 7, 10.0)
    scores = EBO(temperature=temperature).score(reading(logits)).numpy()
    np.testing.assert_allclose(scores, reference("ebo", logits, temperature), rtol=1e-12)


@pytest.mark.parametrize("detector", [MSP(), Entropy(), GEN()], ids=repr)
def test_sure_images_do_not_tie(detector: MSP | Entropy | GEN) -> None:
    gaps = torch.tensor([10.0, 20.0, 36.0, 40.0, 40.5, 80.0, 200.0, 700.0])
    logits = torch.stack([gaps, torch.zeros_like(gaps), torch.zeros_like(gaps) - 1], 1)
    scores = detector.score(reading(logits)).numpy()
    assert (np.diff(scores) < 0).all()
    np.testing.assert_allclose(scores, reference(detector.name, logits, digits=400), rtol=1e-12, atol=0)


@pytest.mark.parametrize("classes", [2, 5, 1000])
def test_flat_logits_have_the_closed_form(classes: int) -> None:
    flat = reading(torch.full((3, classes), 4.0))
    assert MSP().score(flat).tolist() == pytest.approx([1 - 1 / classes] * 3, rel=1e-14)
    assert Entropy().score(flat).tolist() == pytest.approx([math.log(classes)] * 3, rel=1e-14)
    assert EBO().score(flat).tolist() == pytest.approx([-4 - math.log(classes)] * 3, rel=1e-14)
    assert MLS().score(flat).tolist() == [-4.0] * 3


def test_two_largest_logits_share_the_mass() -> None:
    tied = reading(torch.tensor([[30.0, 30.0, -300.0]]))
    assert MSP().score(tied).item() == 0.5
    assert Entropy().score(tied).item() == pytest.approx(math.log(2), rel=1e-15)


@pytest.mark.parametrize("name", LOGIT_DETECTORS)
def test_huge_logits_neither_overflow_nor_vanish(name: str) -> None:
    logits = torch.tensor([[1e4, 1e4 - 3, 0.0], [-1e4, -1e4 - 3, -2e4]])
    np.testing.assert_allclose(create(name).score(reading(logits)).numpy(), reference(name, logits), rtol=1e-12)


@pytest.mark.parametrize("name", LOGIT_DETECTORS)
def test_a_masked_class_counts_for_nothing(name: str) -> None:
    logits = random_logits(6, 4, 3.0)
    masked = torch.cat([logits, torch.full((6, 2), -torch.inf)], 1)
    assert torch.equal(create(name).score(reading(masked)), create(name).score(reading(logits)))


@pytest.mark.parametrize("name", LOGIT_DETECTORS)
def test_unsure_images_are_the_outliers(name: str) -> None:
    inliers, outliers = random_logits(200, 10, 1.0, 1), random_logits(200, 10, 1.0, 2)
    inliers[torch.arange(200), torch.arange(200) % 10] += 8
    scores = create(name).score(reading(torch.cat([inliers, outliers])))
    assert roc_auc_score([0] * 200 + [1] * 200, scores) > 0.95


@pytest.mark.parametrize("name", LOGIT_DETECTORS)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    logits = random_logits(3, 5, 2.0).double().requires_grad_()
    detector = create(name)
    assert torch.autograd.gradcheck(lambda x: detector.score(reading(x)), (logits,))


@pytest.mark.parametrize("name", LOGIT_DETECTORS)
def test_nan_logits_stay_visible(name: str) -> None:
    logits = random_logits(3, 5, 2.0)
    logits[1, 2] = torch.nan
    assert create(name).score(reading(logits)).isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
def test_impossible_temperatures_are_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match=f"temperature must be positive and finite, got {temperature}"):
        EBO(temperature=temperature)


@pytest.mark.parametrize(("top", "gamma"), [(1, 0.1), (3, 0.5), (7, 0.1), (8, 2.0)])
def test_gen_sums_over_the_largest_shares(top: int, gamma: float) -> None:
    logits = random_logits(10, 7, 3.0)
    shares = logits.double().softmax(1).sort(descending=True).values[:, :top]
    expected = (shares**gamma * (1 - shares) ** gamma).sum(1)
    torch.testing.assert_close(GEN(top=top, gamma=gamma).score(reading(logits)), expected, rtol=1e-9, atol=0)


def test_impossible_parameters_of_gen_are_refused() -> None:
    with pytest.raises(ValueError, match="gamma must be positive and finite, got 0"):
        GEN(gamma=0)
    with pytest.raises(ValueError, match="top must be a whole number of at least 1, got 0"):
        GEN(top=0)
