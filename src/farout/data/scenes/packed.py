"""Columns of long tables in few bytes per row: those of few different values hold one byte, constant ones none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

MOST = 256
"""Number of different values that a byte can tell apart."""
FIRST = 4096
"""Rows in which all values of a column with few different ones must occur."""
UNKNOWN = MOST - 1


class Packed:
    """Column of a table. Indexing returns an array of the original values, bit for bit."""

    def __init__(self, stored: NDArray[Any], known: NDArray[Any] | None = None) -> None:
        """stored: the values, or places in `known`, the different values."""
        self.stored, self.known = stored, known

    def __len__(self) -> int:
        return len(self.stored)

    def __getitem__(self, rows: slice | NDArray[Any]) -> NDArray[Any]:
        selected: NDArray[Any] = self.stored[rows]
        return selected if self.known is None else self.known[selected]

    def select(self, rows: NDArray[Any]) -> Packed:
        """Return the column of some rows."""
        if self.stored.strides == (0,):
            return Packed(np.broadcast_to(self.stored[:1], self.stored[rows].shape), self.known)
        return Packed(np.ascontiguousarray(self.stored[rows]), self.known)


def pack(values: NDArray[Any]) -> Packed:
    """Pack a column of numbers."""
    bits = values.view(f"u{values.itemsize}")  # which tell 0.0 from -0.0, and compare NaN
    known = np.unique(bits[:FIRST])
    if not 0 < len(known) <= MOST:
        return Packed(values)
    places = np.searchsorted(known, bits)
    if not np.array_equal(known[np.minimum(places, len(known) - 1)], bits):
        return Packed(values)
    codes = places.astype(np.uint8)
    stored = np.broadcast_to(codes[:1].copy(), codes.shape) if len(known) == 1 else codes
    return Packed(stored, known.view(values.dtype))


def pack_words(words: NDArray[np.str_], vocabulary: Sequence[str]) -> Packed:
    """Pack a column of words; codes are places in the vocabulary. Raise `UnknownWord` for others."""
    found = pa.array(words, pa.string()).dictionary_encode()
    places = {word: place for place, word in enumerate(vocabulary)}
    codes = np.array([places.get(word, UNKNOWN) for word in found.dictionary.to_pylist()], np.uint8)
    stored = codes[found.indices.to_numpy()] if len(words) else np.empty(0, np.uint8)
    if UNKNOWN in codes:
        row = int(np.flatnonzero(stored == UNKNOWN)[0])
        raise UnknownWord(row, str(words[row]))
    return Packed(stored, np.array(vocabulary, np.str_))


class UnknownWord(ValueError):
    """A word is not in the vocabulary."""

    def __init__(self, row: int, word: str) -> None:
        super().__init__(f"unknown word {word!r} in row {row}")
        self.row, self.word = row, word
