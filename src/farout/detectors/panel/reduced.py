"""Input to the fit of detectors with a reduction: some rows of a split and a summary of all, gathered part by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.core import Activations, Head, PostHoc, Reduction, Summary
from farout.detectors.panel.memory import Memory
from farout.detectors.panel.table import Table, columns_of, sort_blocks

ROW, SUMMARY = "row:", "summary:"
"""Prefixes of the columns of kept rows, and of the tensors of a summary."""


class Reduced:
    """Kept rows and summary of one detector. Parts may be reduced in one process and gathered in another."""

    def __init__(
        self, reduction: Reduction, needs: frozenset[str], head: Head | None = None, memory: Memory | None = None
    ) -> None:
        self._reduction, self.needs = reduction, needs
        self._table = Table(len(reduction.rows), head, memory)
        self._summary: Summary | None = None

    def columns(self, start: int, part: Activations) -> dict[str, Tensor]:
        """Return what is kept of a part of the split that starts at this row, on the CPU."""
        first, last = np.searchsorted(self._reduction.rows, [start, start + len(part)])
        selected = torch.from_numpy(self._reduction.rows[first:last] - start).to(part.logits.device)
        rows = columns_of(part, self.needs, selected)
        summary = self._reduction.summarize(start, part)
        kept = {SUMMARY + name: value.detach().cpu() for name, value in summary.items()}
        return kept | {ROW + name: column for name, column in rows.items()}

    def put(self, start: int, columns: Mapping[str, Tensor]) -> None:
        """Gather what `columns` returned for the part that starts at this row."""
        self._table.put(int(np.searchsorted(self._reduction.rows, start)), _with_prefix(ROW, columns))
        summary = _with_prefix(SUMMARY, columns)
        self._summary = summary if self._summary is None else self._reduction.merge(self._summary, summary)

    def fit(self, blocks: Sequence[str]) -> None:
        """Fit the detector; blocks: their order in the network."""
        self._reduction.fit(sort_blocks(self._table.activations(), blocks), self._summary or {})


def reduce_fit(
    detector: PostHoc, labels: NDArray[np.int64] | None, total: int, head: Head | None, memory: Memory
) -> Reduced | None:
    """Return what a detector is fitted on, to be gathered; None if its fit reads the table of the train split."""
    if detector.fits_on != "train":
        return None
    reduction = detector.reduction(total, None if labels is None else torch.from_numpy(labels))
    return None if reduction is None else Reduced(reduction, detector.needs, head, memory)


def _with_prefix(prefix: str, columns: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in columns.items() if name.startswith(prefix)}
