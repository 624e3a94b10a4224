"""Table of the activations of a whole set, filled chunk by chunk; large columns are memory-mapped files."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farout.core import PER_BLOCK, Activations, Head

IN_MEMORY = 1 << 30
"""Size in bytes above which a column is a memory-mapped file."""


class Table:
    """Table with a row per image, `total` rows. A column is allocated when its first chunk is put in.

    head: the network's last layer, which the activations include.
    """

    def __init__(self, total: int, head: Head | None = None) -> None:
        self.total = total
        self._head = head and head.to(torch.device("cpu"))
        self._columns: dict[str, Tensor] = {}

    def put(self, start: int, columns: dict[str, Tensor]) -> None:
        """Write rows from `start` on."""
        for name, rows in columns.items():
            if name not in self._columns:
                self._columns[name] = _allocate((self.total, *rows.shape[1:]), rows.dtype)
            self._columns[name][start : start + len(rows)] = rows

    def activations(self) -> Activations:
        """Return all rows as activations; a column that was never put in is empty."""
        none = torch.empty(self.total, 0)
        blocks: dict[str, dict[str, Tensor]] = {kind: {} for kind in PER_BLOCK}
        for key, rows in self._columns.items():
            kind, _, name = key.partition(":")
            if kind in blocks:
                blocks[kind][name] = rows
        logits, features, members = (self._columns.get(key) for key in ("logits", "features", "members"))
        logits, features = (none if rows is None else rows for rows in (logits, features))
        return Activations(logits, features, head=self._head, members=members, **blocks)

    def column(self, name: str) -> Tensor:
        """Return the rows of one column."""
        return self._columns[name]


def columns_of(activations: Activations, needs: frozenset[str]) -> dict[str, Tensor]:
    """Return the columns of a batch that detectors with these needs read, on the CPU."""
    columns = {"logits": activations.logits, "features": activations.features}
    if activations.members is not None:
        columns["members"] = activations.members
    columns = {name: rows for name, rows in columns.items() if name in needs}
    for kind in PER_BLOCK:
        if kind in needs:
            columns |= {f"{kind}:{name}": rows for name, rows in getattr(activations, kind).items()}
    return {name: rows.detach().cpu() for name, rows in columns.items()}


def sort_blocks(activations: Activations, blocks: Sequence[str]) -> Activations:
    """Return the activations with blocks in the network's order (a file may return them in another)."""
    tables: dict[str, Any] = {
        kind: {name: getattr(activations, kind)[name] for name in blocks if name in getattr(activations, kind)}
        for kind in PER_BLOCK
    }
    return dataclasses.replace(activations, **tables)


def _allocate(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    empty = torch.empty(0, dtype=dtype)
    if int(np.prod(shape)) * empty.element_size() <= IN_MEMORY:
        return torch.empty(shape, dtype=dtype)
    with tempfile.TemporaryFile() as file:  # the map outlives the handle; the file is deleted with the map
        return torch.from_numpy(np.memmap(file, dtype=empty.numpy().dtype, mode="w+", shape=shape))
