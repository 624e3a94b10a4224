"""k-means clusters of features (Lloyd 1982, started by k-means++, Arthur & Vassilvitskii 2007)."""

from __future__ import annotations

import torch
from torch import Tensor

from farout.rng import generator

ROUNDS = 300
"""Most rounds of Lloyd's algorithm."""


def kmeans(rows: Tensor, count: int, seed: int = 0) -> Tensor:
    """Return the cluster of every row [N, D], [N]; every cluster has members."""
    if not 1 <= count <= len(rows):
        raise ValueError(f"expected from 1 to {len(rows)} clusters, one or more rows each, got {count}")
    centers = _spread(rows, count, seed)
    members = torch.cdist(rows, centers).argmin(1)
    for _ in range(ROUNDS):
        centers = torch.stack([_center(rows, members == index, old) for index, old in enumerate(centers)])
        assigned = torch.cdist(rows, centers).argmin(1)
        if torch.equal(assigned, members):
            break
        members = assigned
    return members


def _spread(rows: Tensor, count: int, seed: int) -> Tensor:
    """Return the initial centers of k-means++: each is a row, drawn in proportion to its squared distance."""
    draws = generator(seed, "kmeans")
    chosen = [int(torch.randint(len(rows), (1,), generator=draws))]
    for _ in range(count - 1):
        nearest = torch.cdist(rows, rows[chosen]).amin(1).square().double().cpu()
        even = torch.ones_like(nearest).index_fill(0, torch.tensor(chosen), 0.0)
        weights = nearest if nearest.sum() > 0 else even
        chosen.append(int(torch.multinomial(weights, 1, generator=draws)))
    return rows[chosen]


def _center(rows: Tensor, mine: Tensor, old: Tensor) -> Tensor:
    return rows[mine].mean(0) if mine.any() else old
