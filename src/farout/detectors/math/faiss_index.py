"""Proposals of nearest neighbors by faiss, an optional dependency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

if TYPE_CHECKING:
    from farout.detectors.math.neighbors import Bank

_indexes: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
"""Cache of indexes by the bank's `lengths` tensor (new with every fit) and `unit`; freed with that tensor."""


def import_faiss() -> Any:
    """Import faiss; the error says how to install it."""
    try:
        import faiss
    except ImportError as error:
        raise ImportError(
            'search="faiss" needs faiss: pip install "farout[faiss]", or use search="torch" (same scores)'
        ) from error
    return faiss


def propose(bank: Bank, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return closeness q·b − |b|²/2 and indices [B, count] of the nearest points, by an exhaustive float32 search."""
    import_faiss().omp_set_num_threads(torch.get_num_threads())
    rows = torch.cat([queries, queries.new_ones(len(queries), 1)], 1).cpu().numpy()
    closeness, indices = _index(bank).search(rows, count)
    return torch.from_numpy(closeness).to(queries.device), torch.from_numpy(indices).to(queries.device)


def _index(bank: Bank) -> Any:
    """Return the cached index, built at first use. Points have an extra entry −|b|²/2, multiplied by 1 in the query."""
    indexes = _indexes.setdefault(bank.lengths, {})
    if bank.unit not in indexes:
        index = import_faiss().IndexFlatIP(bank.rows.shape[1] + 1)
        parts = (part.split(bank.WIDENED) for part in (bank.rows, bank.divisors, bank.half_squares))
        for rows, divisors, half_squares in zip(*parts, strict=True):
            points = torch.cat([rows / divisors[:, None], -half_squares[:, None]], 1)
            index.add(points.float().cpu().numpy())
        indexes[bank.unit] = index
    return indexes[bank.unit]
