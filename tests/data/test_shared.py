"""Images that two sets have in common."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import farout
from farout.data import shared
from farout.data.joined import Joined
from farout.data.matched import match
from farout.data.shared import count_equal, is_read

SHAPE = (3, 8, 8)


def pixels(count: int, seed: int, side: int = 8) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (count, side, side, 3), dtype=np.uint8)


def test_images_are_compared_by_their_pixels_whatever_their_set() -> None:
    a, b = pixels(6, 0), pixels(5, 1)
    b[3], b[4] = a[2], a[5]
    one, other = farout.ImageSet.from_arrays(a, name="a"), farout.ImageSet.from_arrays(b, np.arange(5) % 2, name="b")
    floats = farout.ImageSet.from_arrays(np.moveaxis(b, -1, 1).astype(np.float32) / 255, name="floats")
    assert [count_equal(one, two, SHAPE) for two in (other, floats, other.limit(4), other.limit(3))] == [2, 2, 1, 0]
    assert count_equal(other, Joined([one.subset([5]), one.subset([2])]), SHAPE) == 2


def test_a_folder_and_an_array_are_compared_in_one_shape(tmp_path: Path) -> None:
    large = pixels(3, 2, side=16)
    for number, image in enumerate(large[1:]):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    folder, array = farout.load(tmp_path), farout.ImageSet.from_arrays(large, name="large")
    assert count_equal(array, folder, (3, 16, 16)) == 2
    assert count_equal(match(array, SHAPE), folder, SHAPE) == 2


def test_rendered_and_shifted_sets_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    array, toy = farout.ImageSet.from_arrays(pixels(4, 3)), farout.load("toy", limit=4)
    shifted = farout.shift("flip")(array, seed=0)
    assert [is_read(one) for one in (array, array.limit(2), toy, shifted, Joined([array, shifted]))] == [
        True, True, False, False, False,
    ]  # fmt: skip
    assert (count_equal(array, array, SHAPE), count_equal(toy, toy, toy.shape)) == (4, 0)
    monkeypatch.setattr(shared, "LARGEST", 3)
    assert count_equal(array, array, SHAPE) == 0
