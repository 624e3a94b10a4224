"""Proposals of nearest neighbours by faiss, an optional dependency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

if TYPE_CHECKING:
    from farout.detectors.math.neighbors import Bank

_indexes: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
"""By the lengths of the rows they were made from, which a new fit makes anew, and by `unit`; they go with those."""


def library() -> Any:
    """faiss, or an error that says how to get it."""
    try:
        import faiss
    except ImportError as error:
        raise ImportError(
            'search="faiss" needs faiss: pip install "farout[faiss]", or use search="torch" (same scores)'
        ) from error
    return faiss


def propose(bank: Bank, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Closeness q·b − |b|²/2 and places [B, count] of the nearest points in float32, by an exhaustive search."""
    library().omp_set_num_threads(torch.get_num_threads())
    rows = torch.cat([queries, queries.new_ones(len(queries), 1)], 1).cpu().numpy()
    closeness, places = _index(bank).search(rows, count)
    return torch.from_numpy(closeness).to(queries.device), torch.from_numpy(places).to(queries.device)


def _index(bank: Bank) -> Any:
    """Made when first asked for. Each point carries −|b|²/2 as one more entry, which meets a 1 in the query."""
    made = _indexes.setdefault(bank.lengths, {})
    if bank.unit not in made:
        index = library().IndexFlatIP(bank.rows.shape[1] + 1)
        parts = (part.split(bank.WIDENED) for part in (bank.rows, bank.divisors, bank.halves))
        for rows, divisors, halves in zip(*parts, strict=True):
            points = torch.cat([rows / divisors[:, None], -halves[:, None]], 1)
            index.add(points.float().cpu().numpy())
        made[bank.unit] = index
    return made[bank.unit]
