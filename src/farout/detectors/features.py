"""Detectors that read the penultimate features f."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from farout.core import Activations, PostHoc, Split, chunks
from farout.detectors.catalog import register
from farout.detectors.checks import check_count


@register
@dataclass(kw_only=True)
class KNN(PostHoc):
    """Distance to the k-th nearest training feature, all features scaled to length 1 (Sun et al. 2022, eq. 3).

    A float32 product proposes a few more than k neighbours, float64 differences decide among them; where rounding may
    have hidden a neighbour (features in very tight clusters), a float64 product proposes again.
    """

    name: ClassVar[str] = "knn"
    needs: ClassVar[frozenset[str]] = frozenset({"features"})
    fits_on: ClassVar[Split | None] = "train"
    k: int = 50

    SPARE: ClassVar[int] = 16
    """Proposed neighbours beyond k: covers the order errors of the float32 product."""
    BLOCK: ClassVar[int] = 16384
    """Rows of the bank compared at a time."""
    ROWS: ClassVar[int] = 64
    """Rows scored at a time: their neighbours are [ROWS, k + SPARE, D] in float64."""

    def __post_init__(self) -> None:
        check_count("k", self.k)

    def check_fit(self, total: int, labelled: bool) -> None:
        if total < self.k:
            raise ValueError(f"knn: k={self.k} needs at least that many training images, got {total}")

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        self.check_fit(len(activations), labels is not None)
        bank = activations.features
        self.state = {"bank": bank, "lengths": torch.cat([_lengths(part) for part in bank.split(self.BLOCK)])}
        return self

    def score(self, activations: Activations) -> Tensor:
        return torch.cat([self._distances(part) for part in unit(activations.features).split(self.ROWS)])

    def _distances(self, query: Tensor) -> Tensor:
        """Distance of every row to its k-th neighbour."""
        near, last = self._propose(query.to(self.fitted("bank").dtype))
        distances = self._kth(query, near)
        if near.shape[1] < len(self.fitted("bank")):
            reached = (query.square().sum(1) - distances.square()) / 2
            unsure = reached < last + 2 * query.shape[1] ** 0.5 * torch.finfo(last.dtype).eps
            if unsure.any():
                again, _ = self._propose(query[unsure])
                distances = distances.masked_scatter(unsure, self._kth(query[unsure], again))
        return distances

    def _kth(self, query: Tensor, near: Tensor) -> Tensor:
        neighbours = self.fitted("bank")[near].double() / _divisors(self.fitted("lengths"))[near][..., None]
        distances: Tensor = (neighbours - query[:, None]).norm(dim=2).sort(dim=1).values
        return distances[:, self.k - 1]

    @torch.no_grad()
    def _propose(self, query: Tensor) -> tuple[Tensor, Tensor]:
        """Indices [B, k + spare] of the nearest rows as far as the query's precision tells, and the last's closeness.

        Closeness is q·b − |b|²/2, which orders as −|q − b| does and, unlike the cosine, also for b = 0.
        """
        bank, lengths = self.fitted("bank"), self.fitted("lengths")
        count = min(self.k + self.SPARE, len(bank))
        best = query.new_empty(len(query), 0)
        near = torch.empty(len(query), 0, dtype=torch.long, device=query.device)
        for part in chunks(len(bank), self.BLOCK):
            closeness = query @ bank[part].to(query.dtype).T / _divisors(lengths[part]).to(query.dtype)
            closeness -= (lengths[part] > 0) / 2
            here = torch.arange(part.start, part.stop, device=query.device).expand(len(query), -1)
            best, near = torch.cat([best, closeness], 1), torch.cat([near, here], 1)
            best, order = best.topk(min(count, best.shape[1]), dim=1)
            near = near.gather(1, order)
        return near, best[:, -1]


def _lengths(features: Tensor) -> Tensor:
    """Euclidean lengths in float64."""
    lengths: Tensor = features.double().norm(dim=1)
    return lengths


def unit(features: Tensor) -> Tensor:
    """Rows scaled to length 1 in float64; zero stays zero."""
    features = features.double()
    return features / _divisors(_lengths(features))[:, None]


def _divisors(lengths: Tensor) -> Tensor:
    """What scales to length 1: the length, or 1 for the zero vector, which so stays zero."""
    return torch.where(lengths > 0, lengths, 1.0)


@register
@dataclass(kw_only=True)
class MDS(PostHoc):
    """Mahalanobis distance to the nearest class mean, one shared covariance (Lee et al. 2018, eq. 2).

    Penultimate features only. Directions without variance in training are left out (pseudo-inverse).
    """

    name: ClassVar[str] = "mds"
    needs: ClassVar[frozenset[str]] = frozenset({"features"})
    fits_on: ClassVar[Split | None] = "train"

    def check_fit(self, total: int, labelled: bool) -> None:
        if not labelled:
            raise ValueError("mds needs the class of every training image: give a training set with labels")

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        self.check_fit(len(activations), labels is not None)
        assert labels is not None
        present, classes = labels.unique(return_inverse=True)
        means = _class_means(activations, classes, len(present))
        whitener = _whitener(_covariance(activations, means, classes))
        if not whitener.shape[1]:
            raise ValueError(
                f"mds: the features of {len(activations)} training images do not vary within {len(present)} classes; "
                "give more images per class"
            )
        self.state = {"whitener": whitener, "means": means @ whitener}
        return self

    def score(self, activations: Activations) -> Tensor:
        whitened = activations.features.double() @ self.fitted("whitener")
        mode = "donot_use_mm_for_euclid_dist"  # the product form loses the digits of small distances
        distances: Tensor = torch.cdist(whitened, self.fitted("means"), compute_mode=mode)
        return distances.square().amin(1)


def _class_means(activations: Activations, classes: Tensor, count: int) -> Tensor:
    sums = torch.zeros(count, activations.features.shape[1], dtype=torch.float64)
    for part, members in zip(activations.chunks(), classes.split(1024), strict=True):
        sums.index_add_(0, members, part.features.double())
    return sums / classes.bincount(minlength=count)[:, None]


def _covariance(activations: Activations, means: Tensor, classes: Tensor) -> Tensor:
    """Mean outer product of the features around their class's mean."""
    total = torch.zeros(means.shape[1], means.shape[1], dtype=torch.float64)
    for part, members in zip(activations.chunks(), classes.split(1024), strict=True):
        centred = part.features.double() - means[members]
        total.addmm_(centred.T, centred)
    return total / len(activations)


def _whitener(covariance: Tensor) -> Tensor:
    """[D, r] with whitener @ whitener.T = pinv(covariance)."""
    values, vectors = torch.linalg.eigh(covariance)
    kept = values > values[-1] * len(values) * torch.finfo(values.dtype).eps
    whitener: Tensor = vectors[:, kept] * values[kept].rsqrt()
    return whitener
