"""Sets from arrays and .npz files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from farout.core import ImageSet
from farout.data import ArraySet, read_npz
from helpers.originals import random_pixels

IMAGES = random_pixels(7, 4, 5, 3)


def test_uint8_nhwc_and_float_nchw_are_the_same_images() -> None:
    floats = IMAGES.transpose(0, 3, 1, 2).astype(np.float32) / 255
    a, b = ArraySet(IMAGES), ArraySet(torch.from_numpy(floats))
    assert a.shape == b.shape == (3, 4, 5)
    torch.testing.assert_close(a.batch(range(7)), b.batch(range(7)), rtol=0, atol=0)
    assert a.batch([2])[0, 1, 3, 4].item() == pytest.approx(IMAGES[2, 3, 4, 1] / 255)


def test_gray_images_need_no_channel_axis() -> None:
    assert ArraySet(IMAGES[..., 0]).shape == (1, 4, 5)
    torch.testing.assert_close(ArraySet(IMAGES[..., 0]).batch([1]), ArraySet(IMAGES[..., :1]).batch([1]))


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (IMAGES.astype(np.int64), "expected uint8 images .* got int64"),
        (IMAGES[0, 0], "got uint8"),
        (IMAGES.repeat(2, axis=3), r"got uint8 \[7, 4, 5, 6\]"),
        (IMAGES[:0], "the set is empty"),
        (np.full((2, 3, 4, 4), np.nan), "got 96 NaN and no other values"),
        (np.full((2, 3, 4, 4), 7.0), "values from 7 to 7; divide 0..255"),
        (np.full((2, 3, 4, 4), np.inf), r"must lie in \[0, 1\]"),
        (np.array([[[[0.5, np.nan]]]]), "got 1 NaN and values from 0.5 to 0.5"),
        ([["a"]], "expected uint8 images"),
    ],
)
def test_bad_images(images: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ArraySet(images, name="mine")  # type: ignore[arg-type]


@pytest.mark.parametrize("labels", [[0, 1], [0.0] * 7, [-1] * 7, np.zeros((7, 1), int), ["a"] * 7])
def test_bad_labels(labels: object) -> None:
    with pytest.raises(ValueError, match="labels"):
        ArraySet(IMAGES, labels)  # type: ignore[arg-type]


def test_fingerprint_is_of_the_content() -> None:
    first = ArraySet(IMAGES, [0] * 7, name="a").fingerprint
    assert first == ArraySet(IMAGES.copy(), [0] * 7, name="b").fingerprint
    other = IMAGES.copy()
    other[3, 2, 1, 0] ^= 1
    assert len({first, ArraySet(other, [0] * 7).fingerprint, ArraySet(IMAGES, [1] * 7).fingerprint}) == 3


@given(st.lists(st.integers(0, 6), max_size=12))
def test_a_batch_is_its_images_one_by_one(indices: list[int]) -> None:
    images = ImageSet.from_arrays(IMAGES)
    batch = images.batch(indices)
    assert batch.shape == (len(indices), 3, 4, 5)
    for row, index in zip(batch, indices, strict=True):
        assert torch.equal(row, images.batch([index])[0])


@given(st.lists(st.integers(0, 6), min_size=1, max_size=9), st.data())
def test_a_subset_of_a_subset(indices: list[int], data: st.DataObject) -> None:
    inner = data.draw(st.lists(st.integers(0, len(indices) - 1), min_size=1, max_size=5))
    images = ArraySet(IMAGES, range(7))
    part = images.subset(indices).subset(inner)
    assert part.labels is not None
    assert part.labels.tolist() == [indices[place] for place in inner]
    assert torch.equal(part.batch(range(len(inner))), images.batch([indices[place] for place in inner]))


@pytest.mark.parametrize("content", [b"", b"PK\3\4 half a file", b"text"])
def test_damaged_npz(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"damaged or no \.npz file"):
        read_npz(path)


def test_npz_is_never_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, images=np.array([object()]), allow_pickle=True)
    with pytest.raises(ValueError, match=r"[Pp]ickle|Object arrays"):
        read_npz(path)


def test_measures_of_generated_images_are_real_numbers(tmp_path: Path) -> None:
    path, mi = tmp_path / "near.npz", np.linspace(0.1, 0.5, 7)
    np.savez(path, images=IMAGES, mi=mi, lambda_s=np.full(7, 1.25), class_label=np.arange(7))
    images = read_npz(path)
    assert images.attributes["mi"].tolist() == mi.tolist()
    assert images.attributes["lambda_s"][0] == 1.25
    assert images.attributes["class_label"].tolist() == list(range(7))
    np.savez(path, images=IMAGES, mi=np.full(7, np.nan))
    with pytest.raises(ValueError, match="mi: expected 7 finite numbers"):
        read_npz(path)
