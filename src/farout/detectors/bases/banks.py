"""Bounded banks: at most so many training images, drawn with a fixed seed before any activation is kept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from farout.checks import check_count
from farout.core import Activations, Reduction, Summary


def check_bank(bank: int | None) -> None:
    """Raise unless the size of a bank is None or a count."""
    if bank is not None:
        check_count("bank, unless it is None,", bank)


def bank_label(name: str, bank: int | None) -> str:
    """Return a detector's name in tables, which tells a bounded bank from the paper's."""
    return name if bank is None else f"{name}(bank={bank})"


class BankReduction(Reduction):
    """Fit from some rows of the training split; there is no summary of the others."""

    def __init__(self, rows: NDArray[np.int64], keep: Callable[[Activations], None]) -> None:
        self.rows, self._keep = rows, keep

    def fit(self, rows: Activations, summary: Summary) -> None:
        self._keep(rows)
