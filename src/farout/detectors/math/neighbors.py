"""Exact nearest neighbors: float32 products propose, float64 differences decide."""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import torch
from torch import Tensor

from farout.detectors.math import faiss_index as flat
from farout.tensors import chunks

Search = Literal["torch", "faiss"]
"""Library that proposes neighbors. Float64 differences decide, so the distances do not depend on it."""


def row_lengths(rows: Tensor) -> Tensor:
    """Return the Euclidean lengths of the rows in float64."""
    return torch.cat([part.double().norm(dim=1) for part in rows.split(Bank.WIDENED)])


def unit(rows: Tensor) -> Tensor:
    """Return the rows scaled to length 1 in float64; zero stays zero."""
    rows = rows.double()
    return rows / _divisors(rows.norm(dim=1))[:, None]


def _divisors(lengths: Tensor) -> Tensor:
    """Return the divisors that scale rows to length 1: the lengths, or 1 for the zero vector."""
    return torch.where(lengths > 0, lengths, 1.0)


@dataclass(frozen=True)
class Bank:
    """Points to search: rows [N, D] with lengths [N], each scaled to length 1 or not.

    Rows that are not scaled individually are divided by the greatest length, and distances multiplied by it, so that no
    point is longer than 1 for features of any scale.
    """

    rows: Tensor
    lengths: Tensor
    unit: bool
    search: Search = "torch"

    SPARE: ClassVar[int] = 8
    """Extra neighbors compared on either side of those asked for: covers rank errors of the products."""
    FEWEST: ClassVar[int] = 64
    """Smallest number of proposed neighbors, so that several k share a proposal."""
    BLOCK: ClassVar[int] = 65536
    """Rows compared at a time."""
    WIDENED: ClassVar[int] = 8192
    """Rows converted to float64 at a time."""
    QUERIES: ClassVar[int] = 64
    """Queries compared at a time."""
    AT_ONCE: ClassVar[int] = 2**18
    """Differences computed at a time, so that many neighbors need little memory."""
    LIMIT: ClassVar[float] = 1e18
    """Rows of lengths between 1 / LIMIT and LIMIT can be scaled in float32."""

    def nearest(self, features: Tensor, first: int, last: int) -> Tensor:
        """Return distances of every row to its neighbors number first + 1 to last, [B, last − first] float64."""
        reach = 1.0 if self.unit else _divisors(self.lengths.max())
        queries = unit(features) if self.unit else features.double() / reach
        if torch.onnx.is_in_onnx_export():  # a trace has no branches: compare all distances
            return reach * self._all_distances(queries).topk(last, dim=1, largest=False).values[:, first:]
        steps = (torch.float32, torch.float64) if self._fit_float32 else (torch.float64,)
        return reach * torch.cat([self._nearest(part, first, last, steps) for part in queries.split(self.QUERIES)])

    def _all_distances(self, queries: Tensor) -> Tensor:
        """Return the distances of every query to every point, [B, N]."""
        points = self.rows.double() / self.divisors[:, None]
        squares = queries.square().sum(1, keepdim=True) + 2 * self.half_squares - 2 * queries @ points.T
        return squares.clamp(min=0).sqrt()

    @cached_property
    def divisors(self) -> Tensor:
        """Divisors of the rows, [N]."""
        return _divisors(self.lengths if self.unit else self.lengths.max().expand(len(self.rows)))

    @cached_property
    def half_squares(self) -> Tensor:
        """Half of the points' squared lengths, [N]."""
        return (self.lengths / self.divisors).square() / 2

    @property
    def _fit_float32(self) -> bool:
        low, high = _divisors(self.lengths).aminmax()
        return bool(low > 1 / self.LIMIT and high < self.LIMIT)

    def _nearest(self, queries: Tensor, first: int, last: int, steps: tuple[torch.dtype, ...]) -> Tensor:
        """Search with products of increasing precision, each for the queries that the previous one left uncertain."""
        if not steps:
            return self._compare(queries, last)[:, first:]
        closeness, indices = self._propose(queries, min(max(last + self.SPARE, self.FEWEST), len(self.rows)), steps[0])
        distances, certain = self._decide(queries, closeness, indices, first, last)
        doubtful = ~certain & queries.isfinite().all(1)
        if doubtful.any():
            distances = distances.index_put((doubtful,), self._nearest(queries[doubtful], first, last, steps[1:]))
        return distances

    def _decide(
        self, queries: Tensor, closeness: Tensor, indices: Tensor, first: int, last: int
    ) -> tuple[Tensor, Tensor]:
        """Return float64 distances of the neighbors asked for, and True where no neighbor can be missing or misplaced.

        Closeness is q·b − |b|²/2 = (|q|² − |q − b|²) / 2: it orders as −|q − b| does.
        """
        start, stop = max(first - self.SPARE, 0), min(last + self.SPARE, len(self.rows))
        distances = self._distances(queries, indices[:, start:stop]).sort(dim=1).values
        nearest = distances[:, first - start : last - start]
        length = queries.norm(dim=1)
        reached = (length.square()[:, None] - nearest.square()) / 2
        slack = queries.shape[1] ** 0.5 * (1 + length) * torch.finfo(closeness.dtype).eps
        certain = torch.ones_like(length, dtype=torch.bool)
        if stop < len(self.rows):
            certain &= reached[:, -1] >= closeness[:, stop - 1] + slack
        if start > 0:
            certain &= reached[:, 0] <= closeness[:, start - 1] - slack
        return nearest, certain

    def _distances(self, queries: Tensor, indices: Tensor) -> Tensor:
        """Return the distances of every query to the points at its indices, [B, K]."""
        step = max(1, self.AT_ONCE // (indices.shape[1] * queries.shape[1]))
        nearest = []
        for block, places in zip(queries.split(step), indices.split(step), strict=True):
            points = self.rows[places].double() / self.divisors[places][..., None]
            nearest.append((points - block[:, None]).norm(dim=2))
        return torch.cat(nearest)

    @torch.no_grad()
    def _propose(self, queries: Tensor, count: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return closeness and indices [B, count] of the nearest points at this precision, nearest first."""
        if dtype != torch.float32:
            return self._product(queries, count)
        queries = queries.float()
        cached = _Proposal.latest
        if cached is None or not cached.matches(self, queries, count):
            proposal = flat.propose(self, queries, count) if self.search == "faiss" else self._product(queries, count)
            cached = _Proposal.latest = _Proposal(
                weakref.ref(self.rows), _version(self.rows), self.unit, queries, *proposal
            )
        return cached.closeness[:, :count], cached.indices[:, :count]

    def _product(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        scales, offsets = self.divisors.reciprocal().to(queries.dtype), -self.half_squares.to(queries.dtype)
        values, places = [], []
        for part in chunks(len(self.rows), self.BLOCK if queries.dtype == self.rows.dtype else self.WIDENED):
            product = queries @ self.rows[part].to(queries.dtype).T
            closeness = torch.addcmul(offsets[part], product, scales[part], out=product)
            value, place = largest(closeness, min(count, closeness.shape[1]))
            values.append(value)
            places.append(place + part.start)
        best, order = torch.cat(values, 1).topk(count, dim=1)
        return best, torch.cat(places, 1).gather(1, order)

    def _compare(self, queries: Tensor, count: int) -> Tensor:
        """Return the smallest distances [B, count] from all differences: slow, and exact for very close points."""
        best = queries.new_empty(len(queries), 0)
        for part in chunks(len(self.rows), self.WIDENED):
            points = self.rows[part].double() / self.divisors[part, None]
            distances = torch.cdist(queries, points, compute_mode="donot_use_mm_for_euclid_dist")
            best = torch.cat([best, distances], 1)
            best = best.topk(min(count, best.shape[1]), dim=1, largest=False).values
        return best


@dataclass(frozen=True)
class _Proposal:
    """Cache of the latest proposal: detectors that differ only in k ask for the same one in sequence."""

    rows: weakref.ref[Tensor]
    version: int
    unit: bool
    queries: Tensor
    closeness: Tensor
    indices: Tensor

    latest: ClassVar[_Proposal | None] = None

    def matches(self, bank: Bank, queries: Tensor, count: int) -> bool:
        """Return True if it is for the same points and for queries with equal values."""
        same = self.rows() is bank.rows and self.version == _version(bank.rows) and self.unit == bank.unit
        return same and self.indices.shape[1] >= count and torch.equal(self.queries, queries)


def _version(rows: Tensor) -> int:
    """Return the number of in-place changes; inference tensors do not count them."""
    return 0 if rows.is_inference() else rows._version


def largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` largest values of every row and their indices, as topk does, faster on long rows.

    Columns are split into groups. The largest values lie in the groups with the largest maxima, so only these are
    searched.
    """
    total = values.shape[1]
    size = math.isqrt(total // max(count, 1))
    if size < 2:
        return values.topk(count, dim=1)
    groups = total // size
    maxima = values[:, : size * groups].unflatten(1, (size, groups)).amax(1)
    selected = maxima.topk(count, dim=1, sorted=False).indices
    steps = groups * torch.arange(size, device=values.device)
    rest = torch.arange(size * groups, total, device=values.device).expand(len(values), -1)
    places = torch.cat([(selected[:, None] + steps[:, None]).flatten(1), rest], 1)
    best, order = values.gather(1, places).topk(count, dim=1)
    return best, places.gather(1, order)
