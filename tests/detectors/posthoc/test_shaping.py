"""react, ash, scale and dice against loops written from the papers, and by hand in small cases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from farout.core import Activations, Head, NotFitted, PostHoc
from farout.detectors import ASH, DICE, ReAct, Scale
from farout.detectors.bases.shaping import Shaping


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def head(classes: int = 4, width: int = 30) -> Head:
    return Head(draw(classes, width, seed=8), draw(classes, seed=9))


def reading(features: torch.Tensor, last: Head | None = None) -> Activations:
    last = last or head(width=features.shape[1])
    return Activations(last.logits(features).float(), features, {}, last)


def identity(features: list[list[float]]) -> Activations:
    """Features whose energy is that of themselves."""
    rows = torch.tensor(features)
    return reading(rows, Head(torch.eye(rows.shape[1]), torch.zeros(rows.shape[1])))


def energy(rows: list[list[float]]) -> list[float]:
    return [-math.log(math.fsum(math.exp(value) for value in row)) for row in rows]


def slow_energy(rows: list[list[float]], last: Head) -> list[float]:
    """−log Σ_c exp(W_c·f + b_c), term by term."""
    weight, bias = last.weight.tolist(), last.bias.tolist()
    logits = [
        [math.fsum(a * b for a, b in zip(row, w, strict=True)) + b for w, b in zip(weight, bias, strict=True)]
        for row in rows
    ]
    return energy(logits)


def slow_ash(row: list[float], kind: str, percentile: float) -> list[float]:
    count = len(row) - int(np.round(len(row) * percentile / 100))
    kept = sorted(range(len(row)), key=lambda i: -row[i])[:count]
    before, after = math.fsum(row), math.fsum(row[i] for i in kept)
    value = {"P": lambda x: x, "S": lambda x: x * math.exp(before / after), "B": lambda x: before / count}[kind]
    return [value(x) if i in kept else 0.0 for i, x in enumerate(row)]


def slow_scale(row: list[float], percentile: float) -> list[float]:
    count = len(row) - int(np.round(len(row) * percentile / 100))
    factor = math.exp(math.fsum(row) / math.fsum(sorted(row)[-count:]))
    return [factor * x for x in row]


@pytest.mark.parametrize("percentile", [50.0, 65.0, 90.0, 95.0])
@pytest.mark.parametrize("kind", ["P", "S", "B"])
def test_ash_is_the_definition(kind: Any, percentile: float) -> None:
    features = draw(12, 30).relu()
    shaped = [slow_ash(row, kind, percentile) for row in features.tolist()]
    scores = ASH(kind=kind, percentile=percentile).score(reading(features))
    assert scores.dtype == torch.float64
    assert scores.tolist() == pytest.approx(slow_energy(shaped, head()), rel=1e-10)


@pytest.mark.parametrize("percentile", [50.0, 85.0, 95.0])
def test_scale_is_the_definition(percentile: float) -> None:
    features = draw(12, 30).relu()
    shaped = [slow_scale(row, percentile) for row in features.tolist()]
    scores = Scale(percentile=percentile).score(reading(features))
    assert scores.tolist() == pytest.approx(slow_energy(shaped, head()), rel=1e-10)


@pytest.mark.parametrize("percentile", [10.0, 90.0, 97.3])
def test_react_cuts_off_at_the_percentile_of_all_entries(percentile: float) -> None:
    val, test = draw(70, 30, seed=1), draw(12, 30)
    limit = float(np.percentile(val.double().numpy(), percentile))
    shaped = [[min(x, limit) for x in row] for row in test.tolist()]
    detector = ReAct(percentile=percentile).fit(reading(val), None)
    assert detector.fitted("limit").item() == pytest.approx(limit, rel=1e-14)
    assert detector.score(reading(test)).tolist() == pytest.approx(slow_energy(shaped, head()), rel=1e-10)


def test_ash_by_hand() -> None:
    given = identity([[4.0, 1.0, 3.0, 0.0, 2.0]])  # the two largest of five are 4 and 3; the sum is 10
    expected = {
        "P": [[4.0, 0, 3, 0, 0]],
        "S": [[4 * math.exp(10 / 7), 0, 3 * math.exp(10 / 7), 0, 0]],
        "B": [[5.0, 0, 5, 0, 0]],
    }
    for kind, shaped in expected.items():
        found = ASH(kind=kind, percentile=60.0).score(given)  # type: ignore[arg-type]
        assert found.tolist() == pytest.approx(energy(shaped), rel=1e-14), kind


@pytest.mark.parametrize(("total", "percentile", "kept"), [(64, 90.0, 6), (5, 90.0, 1), (15, 90.0, 1), (512, 90.0, 51)])
def test_how_many_are_kept_is_rounded_as_the_pruned_are(total: int, percentile: float, kept: int) -> None:
    """n − round(n·q/100), with halves to the even: not round(n·(1 − q/100)), nor a threshold."""
    shaped = ASH(kind="P", percentile=percentile).shaped(torch.arange(1.0, total + 1).double()[None])
    assert shaped.count_nonzero().item() == kept


@pytest.mark.parametrize("features", [[2.0, 2, 2, 2, 2], [1.0, 0, 0, 0, 0]])
def test_of_equal_entries_the_first_are_kept(features: list[float]) -> None:
    shaped = ASH(kind="B", percentile=60.0).shaped(torch.tensor([features]).double())
    assert shaped.tolist() == [[sum(features) / 2] * 2 + [0.0] * 3]


@pytest.mark.parametrize("percentile", [20.0, 50.0, 90.0, 97.0])
def test_ties_are_broken_as_a_stable_sort_does(percentile: float) -> None:
    features = (2 * draw(50, 30)).round().double()
    shaped = ASH(kind="P", percentile=percentile).shaped(features + 10)
    count = 30 - round(30 * percentile / 100)
    order = (features + 10).argsort(dim=1, descending=True, stable=True)[:, :count]
    assert torch.equal(shaped, torch.zeros_like(features).scatter(1, order, (features + 10).gather(1, order)))


def test_react_reads_bfloat16() -> None:
    val = draw(70, 30).bfloat16()
    limit = float(np.percentile(val.double().numpy(), 90))
    assert ReAct().fit(reading(val), None).fitted("limit").item() == pytest.approx(limit, rel=1e-14)


def test_the_openood_variant_of_ash_binarizes() -> None:
    given = reading(draw(9, 30).relu())
    assert torch.equal(ASH(variant="openood").score(given), ASH(kind="B").score(given))
    assert torch.equal(ASH().score(given), ASH(kind="S").score(given))
    assert ASH(variant="openood").identity() != ASH().identity()


def test_scale_by_hand() -> None:
    found = Scale(percentile=60.0).score(identity([[4.0, 1.0, 3.0, 0.0, 2.0]]))
    factor = math.exp(10 / 7)
    assert found.tolist() == pytest.approx(energy([[4 * factor, factor, 3 * factor, 0, 2 * factor]]), rel=1e-14)


@pytest.mark.parametrize("detector", [ASH(kind="P"), ASH(kind="S"), ASH(kind="B"), Scale()], ids=repr)
def test_features_of_zero_give_the_biases(detector: Shaping) -> None:
    scores = detector.score(reading(torch.zeros(2, 30)))
    assert scores.tolist() == pytest.approx(energy([head().bias.tolist()] * 2), rel=1e-12)


def test_scale_refuses_negative_features() -> None:
    features = draw(3, 30).relu()
    features[1, 2] = -0.25
    with pytest.raises(ValueError, match=r"scale takes features that are not negative.*got values down to -0\.25"):
        Scale().score(reading(features))


def slow_dice(train: torch.Tensor, last: Head, percentile: float) -> Head:
    """Contributions one by one, sorted; a weight is kept above the interpolated percentile."""
    rows = train.tolist()
    mean = [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]
    contributions = [[m * w for m, w in zip(mean, row, strict=True)] for row in last.weight.tolist()]
    ordered = sorted(value for row in contributions for value in row)
    place = (len(ordered) - 1) * percentile / 100
    low = int(place)
    limit = ordered[low] + (place - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])
    weight = [
        [w if c > limit else 0.0 for w, c in zip(ws, cs, strict=True)]
        for ws, cs in zip(last.weight.tolist(), contributions, strict=True)
    ]
    return Head(torch.tensor(weight), last.bias)


@pytest.mark.parametrize("percentile", [10.0, 50.0, 90.0, 99.0])
def test_dice_is_the_definition(percentile: float) -> None:
    train, test = draw(1500, 30, seed=1) + 0.5, draw(12, 30)
    sparse = slow_dice(train, head(), percentile)
    detector = DICE(percentile=percentile).fit(reading(train), None)
    assert torch.equal(detector.fitted("weight"), sparse.weight.double())
    scores = detector.score(reading(test))
    assert scores.dtype == torch.float64
    assert scores.tolist() == pytest.approx(slow_energy(test.tolist(), sparse), rel=1e-10)


def test_dice_by_hand() -> None:
    """Mean features (1, 2): contributions ((3, 2), (−1, 8)); above their median 2.5 are 3 and 8."""
    last = Head(torch.tensor([[3.0, 1], [-1, 4]]), torch.tensor([0.5, 0]))
    train = reading(torch.tensor([[0.0, 1], [2, 3]]), last)
    found = DICE(percentile=50.0).fit(train, None).score(reading(torch.tensor([[0.1, 0.2]]), last))
    assert found.tolist() == pytest.approx(energy([[0.3 + 0.5, 0.8]]), rel=1e-7)


def test_what_dice_cannot_fit_is_said() -> None:
    with pytest.raises(ValueError, match=r"dice: percentile=90 keeps none of 120 weights.*features are all zero"):
        DICE().fit(reading(torch.zeros(5, 30)), None)
    with pytest.raises(ValueError, match="dice: percentile=90 keeps none of 1 weights"):
        DICE().fit(reading(draw(5, 1), Head(torch.ones(1, 1), torch.zeros(1))), None)
    with pytest.raises(ValueError, match="dice: the features to fit on hold NaN or infinity"):
        DICE().fit(reading(draw(2, 30) / 0), None)
    with pytest.raises(ValueError, match="dice reads the network's last linear layer"):
        DICE().check_network(Activations(torch.zeros(5, 4), draw(5, 30)))
    with pytest.raises(NotFitted, match="dice is not fitted: call fit on the inliers' train split first"):
        DICE().score(reading(draw(2, 30)))


@pytest.mark.parametrize("detector", [ReAct(), ASH(), Scale()], ids=repr)
def test_shaping_needs_the_last_layer(detector: Shaping) -> None:
    features = draw(5, 30).relu()
    detector.fit(reading(features), None)
    with pytest.raises(ValueError, match=f"{detector.name} reads the network's last linear layer.*head=network.head"):
        detector.score(Activations(torch.zeros(5, 4), features))
    with pytest.raises(ValueError, match=r"the last layer takes features \[B, 30\], got shape \[5, 20\]"):
        detector.score(Activations(torch.zeros(5, 4), features[:, :20], {}, head()))


@pytest.mark.parametrize("detector", [ReAct(), ASH(kind="P"), ASH(kind="S"), ASH(kind="B"), Scale(), DICE()], ids=repr)
def test_shaping_and_rows(detector: PostHoc) -> None:
    """NaN stays in its row, no rows give no scores, a row scores alike in any company, gradients are right."""
    features = draw(6, 30).relu()
    detector.fit(reading(features), None)
    scores = detector.score(reading(features))
    assert detector.score(reading(features[2:3])).tolist() == pytest.approx(scores[2:3].tolist(), rel=1e-14)
    assert detector.score(reading(features[:0])).shape == (0,)
    broken = features.clone()
    broken[1, 3] = torch.nan
    assert detector.score(reading(broken)).isnan().tolist() == [False, True, False, False, False, False]
    given = draw(2, 30, seed=3).abs().double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: detector.score(reading(x)), (given,))


@pytest.mark.parametrize("percentile", [0.9, 0.0, 100.0, -5.0, math.nan])
@pytest.mark.parametrize("make", [ReAct, ASH, Scale, DICE])
def test_a_percentile_is_in_percent(make: Any, percentile: float) -> None:
    with pytest.raises(ValueError, match=r"percentile must lie between 1 and 100 percent.*use 90 instead of 0\.9"):
        make(percentile=percentile)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="kind must be one of P, S, B, got 'X'"):
        ASH(kind="X")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="variant must be one of paper, openood, got 'other'"):
        ASH(variant="other")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="ash: percentile=90 keeps none of 4 features; lower it"):
        ASH().score(reading(draw(2, 4)))
    with pytest.raises(NotFitted, match="react is not fitted: call fit on the inliers' val split first"):
        ReAct().score(reading(draw(2, 30)))
    with pytest.raises(ValueError, match="react: the features to fit on hold NaN or infinity"):
        ReAct().fit(reading(draw(2, 30) / 0), None)


@pytest.mark.parametrize("detector", [ReAct(), ASH(kind="P"), ASH(kind="S"), ASH(kind="B"), Scale(), DICE()], ids=repr)
def test_weak_features_are_the_outliers(detector: PostHoc) -> None:
    """Each class has eight features of its own; outliers have none."""
    labels = torch.arange(200) % 4
    last = Head(torch.eye(4).repeat_interleave(8, 1), torch.zeros(4))
    own = 2 * last.weight[labels]
    inliers, val = ((own + 0.3 * draw(200, 32, seed=seed)).relu() for seed in (1, 2))
    outliers = (0.3 * draw(200, 32, seed=3)).relu()
    detector.fit(reading(val, last), None)
    scores = detector.score(reading(torch.cat([inliers, outliers]), last))
    assert roc_auc_score([0] * 200 + [1] * 200, scores) > 0.95
