"""vim, nnguide and she against loops and numpy, and what they say to too few images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from farout.core import Activations, Head, NotFitted, PostHoc
from farout.detectors import SHE, NNGuide, ViM


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def head(classes: int = 4, width: int = 10) -> Head:
    return Head(draw(classes, width, seed=8), draw(classes, seed=9))


def reading(features: Tensor, last: Head | None = None) -> Activations:
    last = last or head(width=features.shape[1])
    return Activations(last.logits(features).to(features.dtype), features, {}, last)


def lse(row: Any) -> float:
    return math.log(math.fsum(math.exp(value) for value in row))


def slow_vim(train: Activations, test: Activations, dim: int) -> list[float]:
    """As the paper's formulas read, in numpy."""
    assert train.head is not None
    weight, bias = (part.double().numpy() for part in train.head)
    origin = -np.linalg.pinv(weight) @ bias
    shifted = train.features.double().numpy() - origin
    values, vectors = np.linalg.eigh(sum(np.outer(row, row) for row in shifted) / len(shifted))
    residual = vectors[:, np.argsort(-values)[dim:]]

    def length(row: Any) -> float:
        return math.sqrt(math.fsum((residual[:, i] @ row) ** 2 for i in range(residual.shape[1])))

    alpha = np.mean([max(row) for row in train.logits.tolist()]) / np.mean([length(row) for row in shifted])
    rows = zip(test.features.double().numpy() - origin, test.logits.tolist(), strict=True)
    return [alpha * length(row) - lse(logits) for row, logits in rows]


@pytest.mark.parametrize("dim", [1, 3, 5, 9])
def test_vim_is_the_definition(dim: int) -> None:
    train, test = reading(3 + draw(1500, 10) @ draw(10, 10, seed=1)), reading(3 + draw(9, 10, seed=2))
    scores = ViM(dim=dim).fit(train, None).score(test)
    assert scores.dtype == torch.float64
    assert scores.tolist() == pytest.approx(slow_vim(train, test, dim), rel=1e-9)


@pytest.mark.parametrize(
    ("width", "params", "dim"),
    [
        (10, {}, 5), (11, {}, 5), (767, {}, 383), (768, {}, 512), (2047, {}, 512), (2048, {}, 1000),
        (2048, {"dim": 7}, 7), (512, {"variant": "openood"}, 256), (2048, {"variant": "openood"}, 256),
        (512, {"variant": "openood", "dim": 7}, 7),
    ],
)  # fmt: skip
def test_how_many_directions_are_principal(width: int, params: dict[str, Any], dim: int) -> None:
    with pytest.raises(ValueError, match=f"vim: dim={dim} needs more training images than that, got 2"):
        ViM(**params).fit(reading(draw(2, width)), None)


def test_the_default_is_half_of_few_features() -> None:
    train, test = reading(draw(200, 10)), reading(draw(9, 10, seed=2))
    assert torch.equal(ViM().fit(train, None).score(test), ViM(dim=5).fit(train, None).score(test))


def test_the_origin_has_no_residual() -> None:
    detector = ViM().fit(reading(draw(200, 10)), None)
    origin = reading(detector.fitted("origin")[None])
    assert origin.logits.tolist()[0] == pytest.approx([0] * 4, abs=1e-12)
    assert detector.score(origin).item() == pytest.approx(-math.log(4), abs=1e-12)


def test_what_vim_cannot_fit_is_said() -> None:
    with pytest.raises(ValueError, match="vim: dim=10 leaves no residual of 10 features; give a smaller dim"):
        ViM(dim=10).fit(reading(draw(200, 10)), None)
    with pytest.raises(ValueError, match="vim: dim=5 needs more training images than that, got 5"):
        ViM().fit(reading(draw(5, 10)), None)
    with pytest.raises(ValueError, match="vim: dim=256 needs more training images than that, got 256"):
        ViM(variant="openood").check_fit(256, True)
    with pytest.raises(ValueError, match="vim reads the network's last linear layer"):
        ViM().fit(Activations(draw(20, 4), draw(20, 10)), None)
    flat = Head(torch.eye(4, 10), torch.zeros(4))
    with pytest.raises(ValueError, match="vim: the training features do not leave their 5 principal directions"):
        ViM().fit(reading(draw(200, 10) * (torch.arange(10) < 3), flat), None)
    with pytest.raises(ValueError, match="dim must be a whole number of at least 1, got 0"):
        ViM(dim=0)


def slow_nnguide(bank: Activations, test: Activations, k: int) -> list[float]:
    def unit(row: list[float]) -> list[float]:
        length = math.sqrt(math.fsum(x * x for x in row))
        return [x / length for x in row] if length else row

    rows = zip(bank.features.tolist(), bank.logits.tolist(), strict=True)
    guides = [[x * lse(logits) for x in unit(row)] for row, logits in rows]
    scores = []
    for row, logits in zip(test.features.tolist(), test.logits.tolist(), strict=True):
        products = [math.fsum(a * b for a, b in zip(unit(row), guide, strict=True)) for guide in guides]
        scores.append(-lse(logits) * math.fsum(sorted(products)[-k:]) / k)
    return scores


@pytest.mark.parametrize("k", [1, 10, 120])
def test_nnguide_is_the_definition_and_its_bank_at_least_a_thousand_or_all(k: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(NNGuide, "ROWS", 4)
    train, test = reading(draw(120, 10)), reading(torch.cat([draw(9, 10, seed=2), torch.zeros(1, 10)]))
    scores = NNGuide(k=k).fit(train, None).score(test)
    assert scores.dtype == torch.float64
    assert scores.tolist() == pytest.approx(slow_nnguide(train, test, k), rel=1e-10, abs=1e-13)


def bank_indices(detector: NNGuide, total: int) -> Tensor:
    """Return the indices of the training images in the bank, which their angles tell."""
    angles = torch.arange(total, dtype=torch.float64) / total
    features = torch.stack([angles.cos(), angles.sin()], 1)
    logits = torch.ones(total, 2, dtype=torch.float64)
    bank = detector.fit(Activations(logits, features), None).state["bank"]
    return (torch.atan2(bank[:, 1], bank[:, 0]) * total).round().long()


@pytest.mark.parametrize(("total", "size"), [(120, 120), (1000, 1000), (99_999, 1000), (250_000, 2500)])
def test_the_bank_is_drawn_by_the_seed(total: int, size: int) -> None:
    selected = bank_indices(NNGuide(), total)
    assert len(selected.unique()) == len(selected) == size
    assert selected.min() >= 0
    assert selected.max() < total
    assert torch.equal(selected, bank_indices(NNGuide(), total))
    assert torch.equal(selected, bank_indices(NNGuide(seed=1), total)) == (size == total)
    if size < total:
        assert selected.double().mean().item() == pytest.approx(total / 2, rel=0.05)


def test_the_openood_variant_of_nnguide_takes_the_first_in_order() -> None:
    train, test = reading(draw(1200, 10)), reading(draw(9, 10, seed=2))
    scores = NNGuide(k=5, variant="openood").fit(train, None).score(test)
    assert scores.tolist() == pytest.approx(slow_nnguide(train[:200], test, 5), rel=1e-10)


@pytest.mark.parametrize(("total", "size"), [(150, 150), (5_000, 200), (20_000, 400), (45_000, 600), (50_000, 600)])
def test_the_bank_of_openood_ends_with_a_batch(total: int, size: int) -> None:
    """Batches of 200 images until they are more than 1 % of the training images."""
    batches = next(n for n in range(1, 99) if n * 200 > int(0.01 * total))
    assert bank_indices(NNGuide(variant="openood"), total).tolist() == list(range(size))
    assert size == min(total, 200 * batches)


def test_nnguide_needs_k_images_in_its_bank() -> None:
    with pytest.raises(ValueError, match="nnguide: k=100 needs at least that many images in its bank, got 99 of 99"):
        NNGuide().fit(reading(draw(99, 10)), None)
    with pytest.raises(ValueError, match="at least that many images in its bank, got 200 of 5000"):
        NNGuide(k=201, variant="openood").check_fit(5000, False)
    with pytest.raises(ValueError, match="k must be a whole number of at least 1, got 0"):
        NNGuide(k=0)


def slow_she(train: Activations, labels: list[int], test: Activations) -> list[float]:
    def argmax(row: list[float]) -> int:
        return row.index(max(row))

    means = {}
    rows = list(zip(train.features.tolist(), train.logits.tolist(), labels, strict=True))
    for c in range(train.logits.shape[1]):
        right = [f for f, logits, label in rows if label == c == argmax(logits)]
        pattern = right or [f for f, _, label in rows if label == c] or [[0.0] * train.features.shape[1]]
        means[c] = [math.fsum(column) / len(pattern) for column in zip(*pattern, strict=True)]
    pairs = zip(test.features.tolist(), test.logits.tolist(), strict=True)
    return [-math.fsum(a * b for a, b in zip(f, means[argmax(logits)], strict=True)) for f, logits in pairs]


def test_she_is_the_product_with_the_mean_of_the_correctly_classified() -> None:
    train, test = reading(draw(1500, 10)), reading(draw(30, 10, seed=2))
    labels = torch.where(torch.arange(1500) % 3 == 0, (torch.arange(1500) // 3) % 4, train.logits.argmax(1))
    scores = SHE().fit(train, labels).score(test)
    assert scores.dtype == torch.float64
    assert scores.tolist() == pytest.approx(slow_she(train, labels.tolist(), test), rel=1e-10)


def test_a_class_never_classified_correctly_has_the_mean_of_all_its_images_and_an_absent_one_zero() -> None:
    train, test = reading(draw(300, 10)), reading(draw(40, 10, seed=2))
    guesses = train.logits.argmax(1)
    labels = torch.where(guesses == 0, 1, guesses)  # no image of class 0
    labels = torch.where(guesses == 2, 3, labels)
    labels[(guesses == 1).nonzero()[:5]] = 2  # class 2 is always taken for another
    scores = SHE().fit(train, labels).score(test)
    assert scores.tolist() == pytest.approx(slow_she(train, labels.tolist(), test), rel=1e-10, abs=1e-15)
    absent = test.logits.argmax(1) == 0
    assert absent.any()
    assert scores[absent].tolist() == [0.0] * int(absent.sum())


@pytest.mark.parametrize("labels", [[0, 1, 7], [-1, 0, 1]])
def test_labels_she_cannot_use_are_refused(labels: list[int]) -> None:
    with pytest.raises(ValueError, match=r"she: labels run from -?\d to \d, the network has 4 classes"):
        SHE().fit(reading(draw(3, 10)), torch.tensor(labels))
    with pytest.raises(ValueError, match="she needs the class of every training image"):
        SHE().fit(reading(draw(3, 10)), None)


ALL = [ViM(), NNGuide(k=20), SHE()]


@pytest.mark.parametrize("detector", ALL, ids=repr)
def test_joint_detectors_and_rows(detector: PostHoc) -> None:
    """NaN stays in its row, no rows give no scores, a row scores alike in any company, gradients are right."""
    train, test = reading(draw(100, 10)), draw(6, 10, seed=2)
    detector.fit(train, train.logits.argmax(1))
    scores = detector.score(reading(test))
    assert detector.score(reading(test[2:3])).tolist() == pytest.approx(scores[2:3].tolist(), rel=1e-12)
    assert detector.score(reading(test[:0])).shape == (0,)
    broken = test.clone()
    broken[1, 3] = torch.nan
    assert detector.score(reading(broken)).isnan().tolist() == [False, True, False, False, False, False]
    given = draw(2, 10, seed=3).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: detector.score(reading(x)), (given,))


@pytest.mark.parametrize("detector", ALL, ids=repr)
def test_joint_detectors_say_what_is_wrong_and_forget_the_first_fit(detector: PostHoc) -> None:
    with pytest.raises(NotFitted, match=f"{detector.name} is not fitted: call fit on the inliers' train split first"):
        type(detector)().score(reading(draw(2, 10)))
    broken, train, test = draw(100, 10), reading(draw(100, 10, seed=1)), reading(draw(5, 10, seed=2))
    labels = torch.arange(100) % 4
    once = detector.fit(train, labels).score(test)
    again = detector.fit(reading(broken), labels).fit(train, labels).score(test)
    assert torch.equal(once, again)
    assert all(not value.requires_grad for value in detector.state.values())
    broken[7, 2] = torch.nan
    with pytest.raises(ValueError, match=f"{detector.name}: the features to fit on hold NaN or infinity"):
        detector.fit(reading(broken), labels)


@pytest.mark.parametrize("detector", ALL, ids=repr)
def test_features_off_the_classes_are_the_outliers(detector: PostHoc) -> None:
    labels = torch.arange(300) % 4
    last = Head(torch.eye(4, 16), torch.zeros(4))
    own = 6 * last.weight[labels]
    train, inliers = (own + 0.4 * draw(300, 16, seed=seed) for seed in (1, 2))
    outliers = 0.4 * draw(300, 16, seed=3) + 3 * torch.eye(16)[4 + torch.arange(300) % 12]
    detector.fit(reading(train, last), labels)
    scores = detector.score(reading(torch.cat([inliers, outliers]), last))
    assert roc_auc_score([0] * 300 + [1] * 300, scores) > 0.95
