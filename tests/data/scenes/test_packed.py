"""Packed columns: the values come back bit for bit, in few bytes."""

from __future__ import annotations

import numpy as np
import pytest

from farout.data.scenes.configurations import NUMBERS, RADII
from farout.data.scenes.packed import FIRST, MOST, UnknownWord, pack, pack_words
from farout.data.scenes.sampling import sample
from farout.data.scenes.worlds import SHAPES

RNG = np.random.default_rng(0)
COLUMNS = {
    "constant": np.full(5000, 1.5, np.float32),
    "few": RNG.choice(np.float32([0.0, -0.0, 1e-3, np.nan]), 5000),
    "as many as a byte tells apart": RNG.permutation(np.arange(5000) % MOST),
    "one more": np.arange(5000) % (MOST + 1),
    "many": RNG.random(5000).astype(np.float32),
    "a late value": np.where(np.arange(5000) == FIRST, 7.0, 1.0).astype(np.float32),
    "one row": np.float32([3.0]),
    "none": np.empty(0, np.int64),
}
BYTES = {"constant": 0, "few": 1, "as many as a byte tells apart": 1, "one more": 8, "many": 4, "a late value": 4}


@pytest.mark.parametrize("name", COLUMNS)
def test_values_come_back_bit_for_bit(name: str) -> None:
    values = COLUMNS[name]
    packed, rows = pack(values), np.arange(0, len(values), 7)
    for found, expected in (
        (packed[:], values),
        (packed[rows], values[rows]),
        (packed.select(rows)[:], values[rows]),
    ):
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", BYTES)
def test_bytes_per_row(name: str) -> None:
    stored = pack(COLUMNS[name]).stored
    assert sum(stored.strides) == BYTES[name]


def test_words_are_places_in_the_vocabulary() -> None:
    words = np.array(["b", "", "c", "b"])
    packed = pack_words(words, ("", "a", "b", "c"))
    assert packed.stored.tolist() == [2, 0, 3, 2]
    assert packed[np.array([3, 1])].tolist() == ["b", ""]


def test_an_unknown_word_is_told_with_its_row() -> None:
    with pytest.raises(UnknownWord) as caught:
        pack_words(np.array(["a", "b", "x", "x"]), ("a", "b"))
    assert (caught.value.row, caught.value.word) == (2, "x")


def test_a_table_takes_few_bytes_per_image() -> None:
    found = sample(SHAPES, "a", 20_000, 1, corrupted=0.3)
    bytes_per_row = sum(sum(column.stored.strides) for column in found._packed.values())
    assert len(found._packed) == 5 + len(NUMBERS) + len(RADII)
    assert bytes_per_row == 6 * 4 + 4 + 8 + 2 + 1, "6 continuous numbers, 4 angles and hues, noise, 2 words, severity"
