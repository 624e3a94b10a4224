"""knn, mds and rmds against loops in float64, scikit-learn and scipy; the cases where features are degenerate."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import scipy.linalg
import torch
from sklearn.covariance import EmpiricalCovariance
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors

from farout.core import Activations, NotFitted, PostHoc
from farout.detectors import DN2, KNN, MDS, RMDS
from farout.detectors.math.neighbors import Bank


def reading(features: torch.Tensor) -> Activations:
    return Activations(torch.zeros(len(features), 2), features)


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def unit(row: Sequence[float]) -> list[float]:
    length = math.sqrt(math.fsum(value * value for value in row))
    return [value / length for value in row] if length else list(row)


def slow_knn(bank: torch.Tensor, queries: torch.Tensor, k: int) -> list[float]:
    """Every distance by a loop, sorted, the k-th taken."""
    rows = [unit(row) for row in bank.tolist()]
    return [sorted(math.dist(unit(query), row) for row in rows)[k - 1] for query in queries.tolist()]


def knn(bank: torch.Tensor, queries: torch.Tensor, k: int) -> list[float]:
    return KNN(k=k).fit(reading(bank), None).score(reading(queries)).tolist()


def slow_mds(train: torch.Tensor, labels: Sequence[int], queries: torch.Tensor) -> list[float]:
    """Means and covariance by loops, scipy's pseudo-inverse, every distance by a loop."""
    rows, dim = train.double().numpy(), train.shape[1]
    means = {c: np.mean([row for row, label in zip(rows, labels, strict=True) if label == c], 0) for c in set(labels)}
    covariance = np.zeros((dim, dim))
    for row, label in zip(rows, labels, strict=True):
        covariance += np.outer(row - means[label], row - means[label]) / len(rows)
    inverse = scipy.linalg.pinvh(covariance)
    return [min((q - m) @ inverse @ (q - m) for m in means.values()) for q in queries.double().numpy()]


def mds(train: torch.Tensor, labels: Sequence[int], queries: torch.Tensor) -> list[float]:
    return MDS().fit(reading(train), torch.tensor(labels)).score(reading(queries)).tolist()


@pytest.mark.parametrize("k", [1, 2, 23, 24, 39, 40])
def test_knn_is_the_kth_smallest_distance(k: int) -> None:
    bank, queries = draw(40, 6), draw(9, 6, seed=1)
    assert knn(bank, queries, k) == pytest.approx(slow_knn(bank, queries, k), rel=1e-12)


def test_knn_agrees_with_scikit_learn() -> None:
    bank, queries = draw(2000, 32).relu(), draw(100, 32, seed=1).relu()
    unit_bank = torch.nn.functional.normalize(bank.double())
    unit_queries = torch.nn.functional.normalize(queries.double())
    distances, _ = NearestNeighbors(n_neighbors=50, algorithm="kd_tree").fit(unit_bank).kneighbors(unit_queries)
    assert knn(bank, queries, 50) == pytest.approx(distances[:, -1], rel=1e-12)


@pytest.mark.parametrize("k", [1, 4, 5, 6, 40, 61, 62])
def test_knn_counts_duplicates_one_by_one(k: int) -> None:
    bank = torch.cat([draw(2, 5).repeat(30, 1), draw(2, 5, seed=2)])
    queries = torch.cat([bank[:1], 3 * bank[1:2], draw(3, 5, seed=3)])
    assert knn(bank, queries, k) == pytest.approx(slow_knn(bank, queries, k), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("k", [1, 3, 4, 50, 150, 300])
def test_zero_vectors_lie_at_the_center_of_the_sphere(k: int) -> None:
    bank, queries = draw(300, 8), draw(6, 8, seed=1)
    bank[[0, 100, 299]], queries[0] = 0, 0
    assert knn(bank, queries, k) == pytest.approx(slow_knn(bank, queries, k), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("spread", [1e-2, 1e-3, 1e-4, 1e-5])
def test_knn_keeps_its_digits_in_tight_clusters(spread: float) -> None:
    center = 1 + torch.arange(12) / 12
    bank, queries = center + spread * draw(600, 12), center + spread * draw(5, 12, seed=1)
    assert knn(bank, queries, 50) == pytest.approx(slow_knn(bank, queries, 50), rel=1e-9)


@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_the_length_of_features_does_not_matter_to_knn(scale: float) -> None:
    bank, queries = draw(40, 6), draw(9, 6, seed=1)
    assert knn(bank * scale, queries / scale, 3) == pytest.approx(knn(bank, queries, 3), rel=1e-6)


def test_a_bank_of_many_blocks_is_one_bank(monkeypatch: pytest.MonkeyPatch) -> None:
    bank, queries = draw(100, 6), draw(9, 6, seed=1)
    whole = knn(bank, queries, 20)
    for block in (1, 7, 36, 99):
        monkeypatch.setattr(Bank, "BLOCK", block)
        monkeypatch.setattr(Bank, "WIDENED", block)
        monkeypatch.setattr(Bank, "QUERIES", 2)
        assert knn(bank, queries, 20) == pytest.approx(whole, rel=1e-14)


def test_fitting_knn_again_forgets_the_first_bank() -> None:
    queries = draw(3, 6, seed=1)
    detector = KNN(k=2).fit(reading(draw(50, 6)), None).fit(reading(draw(20, 6, seed=5)), None)
    assert detector.score(reading(queries)).tolist() == knn(draw(20, 6, seed=5), queries, 2)


def test_gradients_of_knn_are_those_of_finite_differences() -> None:
    detector = KNN(k=3).fit(reading(draw(40, 4)), None)
    queries = draw(3, 4, seed=1).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: detector.score(reading(x)), (queries,), atol=1e-4)


def test_gradients_of_knn_stay_finite_on_a_bank_row_and_on_zero() -> None:
    bank = draw(40, 4)
    queries = torch.stack([bank[0], torch.zeros(4)]).requires_grad_()
    KNN(k=1).fit(reading(bank), None).score(reading(queries)).sum().backward()
    assert queries.grad is not None
    assert queries.grad.isfinite().all()


@pytest.mark.parametrize("k", [0, -3, 2.5, "10"])
def test_an_impossible_k_is_refused(k: object) -> None:
    with pytest.raises(ValueError, match=f"k must be a whole number of at least 1, got {k!r}"):
        KNN(k=k)  # type: ignore[arg-type]


def test_knn_needs_k_training_images() -> None:
    with pytest.raises(ValueError, match="k=50 needs at least that many training images, got 49"):
        KNN().fit(reading(draw(49, 3)), None)


@pytest.mark.parametrize("detector", [KNN(), DN2(), MDS(), RMDS()], ids=repr)
def test_scoring_before_fitting_is_an_error(detector: PostHoc) -> None:
    with pytest.raises(NotFitted, match=f"{detector.name} is not fitted: call fit on the inliers' train split"):
        detector.score(reading(draw(2, 3)))


@pytest.mark.parametrize("detector", [KNN(k=2), DN2(), MDS(), RMDS()], ids=repr)
def test_no_rows_give_no_scores(detector: PostHoc) -> None:
    detector.fit(reading(draw(30, 4)), torch.arange(30) % 3)
    scores = detector.score(reading(torch.empty(0, 4)))
    assert scores.shape == (0,)
    assert scores.dtype == torch.float64


def test_mds_is_the_distance_to_the_nearest_class() -> None:
    labels = [i % 4 for i in range(200)]
    train = draw(200, 6) @ draw(6, 6, seed=1) + 5 * draw(4, 6, seed=2)[labels]
    queries = 4 * draw(20, 6, seed=3)
    assert mds(train, labels, queries) == pytest.approx(slow_mds(train, labels, queries), rel=1e-9)


def test_mds_agrees_with_scikit_learn_for_one_class() -> None:
    train, queries = draw(300, 5) * torch.tensor([1.0, 10, 0.1, 3, 1]) + 100, draw(20, 5, seed=1)
    theirs = EmpiricalCovariance().fit(train.double().numpy()).mahalanobis(queries.double().numpy())
    assert mds(train, [0] * 300, queries) == pytest.approx(theirs, rel=1e-8)


def test_mds_of_long_tables_is_that_of_short_ones() -> None:
    train, labels, queries = draw(1500, 4), [i // 400 for i in range(1500)], draw(5, 4, seed=1)
    assert mds(train, labels, queries) == pytest.approx(slow_mds(train, labels, queries), rel=1e-9)


def slow_rmds(train: torch.Tensor, labels: Sequence[int], queries: torch.Tensor) -> list[float]:
    """The nearest class's distance less that of one class of all."""
    nearest, background = slow_mds(train, labels, queries), slow_mds(train, [0] * len(labels), queries)
    return [near - far for near, far in zip(nearest, background, strict=True)]


def rmds(train: torch.Tensor, labels: Sequence[int], queries: torch.Tensor) -> list[float]:
    return RMDS().fit(reading(train), torch.tensor(labels)).score(reading(queries)).tolist()


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_rmds_is_the_distance_to_the_nearest_class_less_that_to_all(offset: float) -> None:
    labels = [3 * (i % 4) for i in range(1500)]
    train = offset + draw(1500, 6) @ draw(6, 6, seed=1) + 5 * draw(10, 6, seed=2)[labels]
    queries = offset + 4 * draw(20, 6, seed=3)
    assert rmds(train, labels, queries) == pytest.approx(slow_rmds(train, labels, queries), rel=1e-9)


def test_rmds_of_two_classes_by_hand() -> None:
    """Classes {−3, −1} and {1, 3}: variance 1 within, 5 in all around 0."""
    train, queries = torch.tensor([[-3.0], [-1], [1], [3]]), torch.tensor([[0.0], [2], [-2], [10]])
    assert rmds(train, [0, 0, 1, 1], queries) == pytest.approx([4 - 0, 0 - 4 / 5, 0 - 4 / 5, 64 - 100 / 5], rel=1e-14)


def test_rmds_does_not_change_with_the_basis_of_the_features() -> None:
    train, labels, queries = draw(90, 5) + 2, [i % 3 for i in range(90)], draw(9, 5, seed=1)
    basis = torch.tensor(np.linalg.qr(draw(5, 5, seed=2).numpy())[0]) @ torch.diag(torch.tensor([1.0, 10, 0.1, 3, 7]))
    turned = rmds(train.double() @ basis.double(), labels, queries.double() @ basis.double())
    assert turned == pytest.approx(rmds(train, labels, queries), rel=1e-9)


def test_rmds_needs_classes() -> None:
    with pytest.raises(ValueError, match="rmds needs the class of every training image"):
        RMDS().check_fit(20, False)
    detector = RMDS()
    with pytest.raises(ValueError, match=r"rmds compares classes with their union: give .* at least two classes"):
        detector.fit(reading(draw(20, 3)), torch.zeros(20, dtype=torch.long))
    assert not detector.state
    with pytest.raises(ValueError, match=r"rmds: the features of 5 training images do not vary within 5 classes"):
        rmds(draw(5, 3), range(5), draw(1, 3))


@pytest.mark.parametrize("detector", [KNN(k=2), DN2(), MDS(), RMDS()], ids=repr)
def test_features_to_fit_on_must_be_finite(detector: PostHoc) -> None:
    train = draw(30, 4)
    train[7, 2] = torch.nan
    with pytest.raises(ValueError, match=f"{detector.name}: the features to fit on hold NaN or infinity"):
        detector.fit(reading(train), torch.arange(30) % 3)


@pytest.mark.parametrize("detector", [KNN(k=2), DN2(), MDS(), RMDS()], ids=repr)
def test_rows_are_scored_one_by_one(detector: PostHoc) -> None:
    """NaN stays in its row, a row scores alike in any company, gradients are right."""
    detector.fit(reading(draw(100, 4)), torch.arange(100) % 3)
    queries = draw(6, 4, seed=1)
    scores = detector.score(reading(queries))
    assert detector.score(reading(queries[2:3])).tolist() == pytest.approx(scores[2:3].tolist(), rel=1e-13)
    queries[1, 3] = torch.nan
    again = detector.score(reading(queries))
    assert again.isnan().tolist() == [False, True, False, False, False, False]
    assert again[2:].tolist() == pytest.approx(scores[2:].tolist(), rel=1e-13)
    given = draw(3, 4, seed=2).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: detector.score(reading(x)), (given,))


def _duplicated(train: torch.Tensor) -> torch.Tensor:
    return torch.cat([train, train[:, :2], torch.full((len(train), 1), 3.0)], 1)


@pytest.mark.parametrize("shape", ["duplicated and constant features", "fewer images than features"])
def test_mds_leaves_out_directions_without_variance(shape: str) -> None:
    if shape.startswith("fewer"):
        train, queries = draw(12, 20), draw(6, 20, seed=1)
    else:
        train, queries = _duplicated(draw(60, 4)), _duplicated(draw(6, 4, seed=1))
        queries[:, -1] += 50  # along a direction training never took
    labels = [i % 3 for i in range(len(train))]
    assert mds(train, labels, queries) == pytest.approx(slow_mds(train, labels, queries), rel=1e-7)


@pytest.mark.parametrize("present", [(0, 3, 7), (5,), (2, 999)])
def test_classes_that_are_absent_have_no_mean(present: tuple[int, ...]) -> None:
    labels = [present[i % len(present)] for i in range(90)]
    train, queries = draw(90, 3) + torch.tensor(labels)[:, None], draw(5, 3, seed=1)
    assert mds(train, labels, queries) == pytest.approx(slow_mds(train, labels, queries), rel=1e-8)


def test_a_class_mean_is_at_distance_zero() -> None:
    train, labels = draw(90, 3) + 1000, [i % 3 for i in range(90)]
    means = torch.stack([train.double()[i::3].mean(0) for i in range(3)])
    assert mds(train, labels, means) == pytest.approx([0, 0, 0], abs=1e-15)


def test_mds_without_labels_is_an_error() -> None:
    with pytest.raises(ValueError, match="mds needs the class of every training image"):
        MDS().fit(reading(draw(20, 3)), None)


def test_one_image_per_class_is_too_few_for_mds() -> None:
    with pytest.raises(ValueError, match=r"features of 5 training images do not vary within 5 classes; give more"):
        mds(draw(5, 3), range(5), draw(1, 3))


@pytest.mark.parametrize("total", [9, 21, 300])
def test_features_that_vary_by_rounding_alone_are_refused(total: int) -> None:
    """The mean of equal float64 numbers is off by a last digit."""
    train = torch.tensor([[0.1, 0.3, 0.07, 0.91]], dtype=torch.float64).expand(total, -1)
    with pytest.raises(ValueError, match=f"features of {total} training images do not vary within 3 classes"):
        mds(train, [i % 3 for i in range(total)], train)
    varied = train + 1e-9 * draw(total, 4).double()
    labels, queries = [i % 3 for i in range(total)], varied[:3] + 1e-9
    assert mds(varied, labels, queries) == pytest.approx(slow_mds(varied, labels, queries), rel=1e-4)


@pytest.mark.parametrize("detector", [KNN(k=10), DN2(), MDS(), RMDS()], ids=repr)
def test_far_features_are_the_outliers(detector: PostHoc) -> None:
    labels = torch.arange(300) % 3
    centers = 6 * torch.eye(3, 8)
    train, inliers = draw(300, 8) + centers[labels], draw(300, 8, seed=1) + centers[labels]
    outliers = draw(300, 8, seed=2) + 6 * torch.eye(8)[3 + labels]
    scores = detector.fit(reading(train), labels).score(reading(torch.cat([inliers, outliers])))
    assert roc_auc_score([0] * 300 + [1] * 300, scores) > 0.95
