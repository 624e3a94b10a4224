"""Table of the activations of a whole set, filled chunk by chunk; what exceeds a budget lies in memory-mapped files."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from farout.core import PER_BLOCK, Activations, Head
from farout.detectors.panel.memory import Memory


class Table:
    """Table with a row per image, `total` rows. A column is allocated when its first chunk is put in.

    head: the network's last layer, which the activations include. memory: where columns lie; tables can share one.
    """

    def __init__(self, total: int, head: Head | None = None, memory: Memory | None = None) -> None:
        self.total, self._memory = total, memory or Memory()
        self._head = head and head.to(torch.device("cpu"))
        self._columns: dict[str, Tensor] = {}

    def put(self, start: int, columns: dict[str, Tensor]) -> None:
        """Write rows from `start` on."""
        self._allocate({name: rows for name, rows in columns.items() if name not in self._columns})
        for name, rows in columns.items():
            self._columns[name][start : start + len(rows)] = rows
            self._memory.written(rows.nbytes)

    def _allocate(self, new: dict[str, Tensor]) -> None:
        """Make columns for these rows: the smallest first, so that they stay in memory."""
        made = {
            name: self._memory.allocate((self.total, *new[name].shape[1:]), new[name].dtype)
            for name in sorted(new, key=lambda name: _width(new[name]))
        }
        self._columns |= {name: made[name] for name in new}  # in the order of the blocks

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


def columns_of(
    activations: Activations, needs: frozenset[str], selected: Tensor | slice = slice(None)
) -> dict[str, Tensor]:
    """Return the columns of a batch that detectors with these needs read, on the CPU: all rows, or the selected."""
    columns = {"logits": activations.logits, "features": activations.features}
    if activations.members is not None:
        columns["members"] = activations.members
    columns = {name: rows for name, rows in columns.items() if name in needs}
    for kind in PER_BLOCK:
        if kind in needs:
            columns |= {f"{kind}:{name}": rows for name, rows in getattr(activations, kind).items()}
    return {name: rows.detach()[selected].cpu() for name, rows in columns.items()}


def joined(parts: Sequence[Activations]) -> Activations:
    """Return the rows of consecutive batches together."""
    first, *rest = parts
    if not rest:
        return first
    tables: dict[str, Any] = {
        kind: {name: torch.cat([getattr(part, kind)[name] for part in parts]) for name in getattr(first, kind)}
        for kind in PER_BLOCK
    }
    columns = {"logits": [part.logits for part in parts], "features": [part.features for part in parts]}
    members = [part.members for part in parts if part.members is not None]
    tables |= {name: torch.cat(rows) for name, rows in columns.items()}
    return dataclasses.replace(first, members=torch.cat(members) if members else None, **tables)


def sort_blocks(activations: Activations, blocks: Sequence[str]) -> Activations:
    """Return the activations with blocks in the network's order (a file may return them in another)."""
    tables: dict[str, Any] = {
        kind: {name: getattr(activations, kind)[name] for name in blocks if name in getattr(activations, kind)}
        for kind in PER_BLOCK
    }
    return dataclasses.replace(activations, **tables)


def _width(rows: Tensor) -> int:
    """Return the bytes of a row."""
    return rows.shape[1:].numel() * rows.element_size()
