"""Nearest neighbors: dn2 against loops, the search at every scale, faiss, and what detectors share."""

from __future__ import annotations

import copy
import gc
import math
import sys
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

from farout.core import Activations
from farout.detectors import DN2, KNN
from farout.detectors.math import faiss_index as flat
from farout.detectors.math import neighbors as neighbors
from farout.detectors.math.neighbors import Bank, largest, row_lengths


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def reading(features: Tensor) -> Activations:
    return Activations(torch.zeros(len(features), 2), features)


def slow_dn2(bank: Tensor, queries: Tensor, k: int) -> list[float]:
    """Every distance by a loop, sorted, the mean of the first k."""
    rows = bank.tolist()
    return [math.fsum(sorted(math.dist(query, row) for row in rows)[:k]) / k for query in queries.tolist()]


def dn2(bank: Tensor, queries: Tensor, k: int = 2) -> list[float]:
    return DN2(k=k).fit(reading(bank), None).score(reading(queries)).tolist()


@pytest.mark.parametrize("k", [1, 2, 70, 149, 150])
def test_dn2_is_the_mean_of_the_smallest_distances(k: int) -> None:
    bank, queries = draw(150, 6), 2 * draw(9, 6, seed=1)
    assert dn2(bank, queries, k) == pytest.approx(slow_dn2(bank, queries, k), rel=1e-12)


def test_dn2_on_a_line_by_hand() -> None:
    bank = torch.tensor([[0.0], [1.0], [10.0], [11.0], [-4.0]])
    queries = torch.tensor([[0.5], [10.0], [5.0], [-10.0], [0.0]])
    assert dn2(bank, queries) == pytest.approx([0.5, 0.5, 4.5, 8.0, 0.5], rel=1e-15)


@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1e-6, 1.0, 1e6, 1e19, 1e30, 1e38])
@pytest.mark.parametrize("farther", [1.0, 1e-8, 1e8])
def test_dn2_is_right_at_any_scale(scale: float, farther: float) -> None:
    bank, queries = (draw(300, 6).double() * scale).float(), (draw(9, 6, seed=1).double() * scale * farther).float()
    bank, queries = bank.clamp(-3e38, 3e38), queries.clamp(-3e38, 3e38)
    assert dn2(bank, queries) == pytest.approx(slow_dn2(bank, queries, 2), rel=1e-11)


@pytest.mark.parametrize("spread", [1e-1, 1e-3, 1e-5, 1e-6])
def test_dn2_keeps_its_digits_far_from_the_origin(spread: float) -> None:
    center = 1 + torch.arange(12) / 12
    bank, queries = center + spread * draw(600, 12), center + spread * draw(5, 12, seed=1)
    assert dn2(bank, queries) == pytest.approx(slow_dn2(bank, queries, 2), rel=1e-9)


def test_rows_of_very_different_lengths_are_searched_right() -> None:
    bank, queries = draw(400, 6), draw(40, 6, seed=1)
    bank *= torch.logspace(-12, 3, 400)[:, None]
    queries *= torch.logspace(-14, 3, 40)[:, None]
    assert dn2(bank, queries) == pytest.approx(slow_dn2(bank, queries, 2), rel=1e-9)


def test_duplicates_and_zeros_count_one_by_one() -> None:
    bank = torch.cat([torch.zeros(40, 5), draw(2, 5).repeat(30, 1), draw(100, 5, seed=2)])
    queries = torch.cat([torch.zeros(1, 5), bank[40:42], draw(3, 5, seed=3)])
    for k in (1, 2, 30, 31, 41, 100):
        assert dn2(bank, queries, k) == pytest.approx(slow_dn2(bank, queries, k), rel=1e-12, abs=1e-15), k
    assert dn2(torch.zeros(3, 5), queries) == pytest.approx([math.hypot(*row) for row in queries.tolist()], rel=1e-12)


@pytest.mark.parametrize("widened", [17, 8192])
def test_neighbors_that_differ_in_the_last_digit_are_told_apart(widened: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row i differs from the query by one unit in the last place at i + 1 entries: less than float64 products see."""
    monkeypatch.setattr(Bank, "WIDENED", widened)
    query, step = torch.ones(1, 4000), 2.0**-23
    order = torch.randperm(200, generator=torch.Generator().manual_seed(0))
    bank = 1 + step * (torch.arange(4000) <= order[:, None])
    expected = [step * math.sqrt(i + 1) for i in range(200)]
    found = Bank(bank, row_lengths(bank), False).nearest(query, 0, 100)[0]
    assert found.tolist() == pytest.approx(expected[:100], rel=1e-9)
    assert dn2(bank, query) == pytest.approx([(expected[0] + expected[1]) / 2], rel=1e-9)


@pytest.mark.parametrize("make", [KNN, DN2])
def test_rows_too_short_for_float32_count_as_any(make: type[KNN | DN2]) -> None:
    """Scaled in float32 they would give infinity or NaN, and pass for the nearest."""
    bank, queries = draw(300, 6), draw(9, 6, seed=1)
    bank[::30] *= 1e-40
    scores = make(k=40).fit(reading(bank), None).score(reading(queries))
    if make is KNN:
        points, wanted = neighbors.unit(bank), neighbors.unit(queries)
        expected = [sorted(math.dist(q, row) for row in points.tolist())[39] for q in wanted.tolist()]
    else:
        expected = slow_dn2(bank, queries, 40)
    assert scores.tolist() == pytest.approx(expected, rel=1e-12)


def test_those_before_the_ones_asked_for_are_looked_at_where_rounding_may_swap_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sixty rows nearly alike, then a gap: the sixtieth neighbor is the farthest of the sixty."""
    rows = torch.cat([1 + 1e-4 * torch.arange(60), 100 + torch.arange(180)])[:, None]
    monkeypatch.setattr(torch, "finfo", _coarse(torch.finfo))
    monkeypatch.setattr(Spoiled, "error", 1e-3)
    found = Spoiled(rows, row_lengths(rows), False).nearest(torch.zeros(30, 1), 59, 60)
    assert found.squeeze(1).tolist() == pytest.approx([rows[59].item()] * 30, rel=1e-12)


def test_a_search_among_rows_as_they_are_does_not_serve_scaled_rows() -> None:
    """Both ask with the same numbers where the longest row and the query have length 1."""
    rows = neighbors.unit(draw(300, 3)).float() * torch.linspace(0.1, 0.9, 300)[:, None]
    rows[0] = torch.tensor([1.0, 0, 0])
    train, query = reading(rows), reading(torch.eye(3)[1:])
    nearby = DN2().fit(train, None).score(query)
    assert nearby.tolist() == pytest.approx(slow_dn2(rows, torch.eye(3)[1:], 2), rel=1e-12)
    points = neighbors.unit(rows).tolist()
    expected = [sorted(math.dist(q, row) for row in points)[1] for q in torch.eye(3)[1:].tolist()]
    assert KNN(k=2).fit(train, None).score(query).tolist() == pytest.approx(expected, rel=1e-12)


def test_many_neighbors_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    bank, queries = draw(300, 6), draw(40, 6, seed=1)
    expected, sizes, norm = slow_dn2(bank, queries, 200), [], Tensor.norm
    monkeypatch.setattr(Bank, "AT_ONCE", 5000)
    monkeypatch.setattr(Tensor, "norm", lambda rows, **given: sizes.append(rows.numel()) or norm(rows, **given))
    assert dn2(bank, queries, 200) == pytest.approx(expected, rel=1e-12)
    assert max(sizes) <= 5000


def test_labels_play_no_part_in_dn2() -> None:
    bank, queries = reading(draw(50, 6)), reading(draw(9, 6, seed=1))
    assert torch.equal(DN2().fit(bank, torch.arange(50) % 7).score(queries), DN2().fit(bank, None).score(queries))


@pytest.mark.parametrize("count", [1, 3, 20, 64])
@pytest.mark.parametrize("total", [64, 100, 257, 5000, 20011])
def test_the_largest_are_those_of_topk(total: int, count: int) -> None:
    values = draw(7, total, seed=total)
    found, places = largest(values, count)
    assert torch.equal(found, values.topk(count, dim=1).values)
    assert torch.equal(values.gather(1, places), found)
    tied = values.round()
    found, places = largest(tied, count)
    assert torch.equal(found, tied.topk(count, dim=1).values)
    assert all(len(set(row)) == count for row in places.tolist())


class Spoiled(Bank):
    """A bank whose float32 products are off by as much as rounding may do, or more."""

    error = 0.0

    def _product(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        if queries.dtype == torch.float64:
            return super()._product(queries, count)
        points = self.rows.double() / self.divisors[:, None]
        noise = draw(len(queries), len(points), seed=5).clamp(-1, 1) * self.error
        best, near = (queries.double() @ points.T - self.half_squares + noise).topk(count, dim=1)
        return best.float(), near


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize(("first", "last"), [(0, 1), (0, 2), (49, 50), (9, 60), (199, 200)])
def test_rounding_does_not_choose_the_neighbors(
    unit: bool, first: int, last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products that err by the whole slack allowed for change no distance."""
    rows, queries = draw(200, 4), draw(30, 4, seed=1)
    monkeypatch.setattr(neighbors._Proposal, "latest", None)
    monkeypatch.setattr(Bank, "FEWEST", 1)
    monkeypatch.setattr(Bank, "SPARE", 1)
    monkeypatch.setattr(torch, "finfo", _coarse(torch.finfo))
    monkeypatch.setattr(Spoiled, "error", 1e-3)
    bank = Bank(rows, row_lengths(rows), unit)
    expected = torch.cdist(queries.double(), rows.double(), compute_mode="donot_use_mm_for_euclid_dist")
    if unit:
        expected = torch.cdist(neighbors.unit(queries), neighbors.unit(rows))
    expected = expected.sort(1).values[:, first:last]
    spoiled = Spoiled(rows, bank.lengths, unit).nearest(queries, first, last)
    torch.testing.assert_close(spoiled, expected, rtol=1e-9, atol=1e-12)


def _coarse(finfo: Any) -> Any:
    """Numbers of float32 that are known to 1e-3 only."""

    class Coarse:
        def __init__(self, dtype: torch.dtype) -> None:
            self.eps = 1e-3 if dtype == torch.float32 else finfo(dtype).eps

    return Coarse


def test_detectors_that_differ_in_k_share_one_search(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    product = Bank._product
    monkeypatch.setattr(Bank, "_product", lambda *given: calls.append(1) or product(*given))
    train = reading(draw(500, 6))
    detectors = [KNN(k=1).fit(train, None), KNN(k=10).fit(train, None), KNN(k=50).fit(train, None)]
    queries = reading(draw(20, 6, seed=1))
    together = [detector.score(queries) for detector in detectors]
    assert len(calls) == 1
    queries.features[3] += 1
    changed = [detector.score(queries) for detector in detectors]
    assert len(calls) == 2
    other = DN2().fit(train, None).score(queries)
    assert len(calls) == 3
    fresh = reading(draw(500, 6))
    for detector, before, after in zip(detectors, together, changed, strict=True):
        alone = KNN(k=detector.k).fit(fresh, None)
        assert torch.equal(alone.score(queries), after)
        assert before[3] != after[3]
        assert torch.equal(before[4:], after[4:])
    assert other.tolist() == pytest.approx(slow_dn2(fresh.features, queries.features, 2), rel=1e-12)


def test_the_latest_search_does_not_keep_a_bank_alive() -> None:
    detector = KNN(k=2).fit(reading(draw(500, 6)), None)
    detector.score(reading(draw(20, 6, seed=1)))
    bank = weakref.ref(detector.state["bank"])
    assert bank() is not None
    del detector
    gc.collect()
    assert bank() is None


def search_elsewhere() -> None:
    """Search in another bank, so that the neighbors of the latest search are not used again."""
    KNN(k=1).fit(reading(draw(9, 4)), None).score(reading(draw(2, 4, seed=1)))


@pytest.mark.parametrize("make", [KNN, DN2])
def test_faiss_gives_the_same_scores(make: type[KNN | DN2]) -> None:
    pytest.importorskip("faiss")
    train, queries = reading(draw(3000, 16).relu()), reading(draw(100, 16, seed=1).relu())
    train.features[5], queries.features[7] = 0, 0
    for k in (1, 2, 10, 80):
        ours, theirs = (make(k=k, search=search).fit(train, None) for search in ("torch", "faiss"))  # type: ignore[arg-type]
        search_elsewhere()
        expected = ours.score(queries)
        search_elsewhere()
        torch.testing.assert_close(theirs.score(queries), expected, rtol=1e-15, atol=0)
        assert ours.state.keys() == theirs.state.keys() == {"bank", "lengths"}
        torch.testing.assert_close(copy.deepcopy(theirs).score(queries), expected, rtol=1e-15, atol=0)


def test_an_index_of_scaled_rows_does_not_serve_rows_as_they_are() -> None:
    """A loaded panel holds equal tensors once, so that knn and dn2 share the lengths, too."""
    pytest.importorskip("faiss")
    train, queries = reading(draw(3000, 8) * torch.linspace(0.1, 5, 3000)[:, None]), reading(draw(20, 8, seed=1))
    expected = [make().fit(train, None).score(queries) for make in (KNN, DN2)]
    knn, dn2 = (make(search="faiss").fit(train, None) for make in (KNN, DN2))
    dn2.state = dict(knn.state)
    for detector, scores in zip((knn, dn2), expected, strict=True):
        search_elsewhere()
        torch.testing.assert_close(detector.score(queries), scores, rtol=1e-15, atol=0)


@pytest.mark.parametrize("search", ["torch", "faiss"])
def test_fitting_again_on_the_same_tensor_forgets_what_it_held(search: Any) -> None:
    if search == "faiss":
        pytest.importorskip("faiss")
    train, queries = reading(draw(500, 6)), reading(draw(9, 6, seed=1))
    detector = KNN(k=1, search=search).fit(train, None)
    before = detector.score(queries)
    train.features.copy_(draw(500, 6, seed=2))
    after = detector.fit(train, None).score(queries)
    assert torch.equal(after, KNN(k=1).fit(reading(draw(500, 6, seed=2)), None).score(queries))
    assert not torch.equal(after, before)


def test_an_index_goes_with_its_bank() -> None:
    pytest.importorskip("faiss")
    gc.collect()
    before = len(flat._indexes)
    detector = KNN(k=2, search="faiss").fit(reading(draw(100, 4)), None)
    assert len(flat._indexes) == before
    detector.score(reading(draw(3, 4)))
    assert len(flat._indexes) == before + 1
    del detector
    gc.collect()
    assert len(flat._indexes) == before


def test_without_faiss_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r'search="faiss" needs faiss: pip install "farout\[faiss\]"'):
        KNN(k=2, search="faiss").fit(reading(draw(10, 4)), None)
    with pytest.raises(ValueError, match="search must be one of torch, faiss, got 'annoy'"):
        KNN(search="annoy")  # type: ignore[arg-type]


def test_dn2_needs_k_training_images() -> None:
    with pytest.raises(ValueError, match="dn2: k=2 needs at least that many training images, got 1"):
        DN2().fit(reading(draw(1, 3)), None)
    with pytest.raises(ValueError, match="k must be a whole number of at least 1, got 0"):
        DN2(k=0)
