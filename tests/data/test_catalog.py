"""`load`: names, paths, splits, limits and what it says to bad input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import farout.data
from farout.core import ImageSet
from farout.data.catalog import first_indices
from helpers.originals import png, random_pixels, write

SHARED = Path(__file__).parents[3] / "shared" / "data"


def test_names_are_all_there() -> None:
    downloaded = {
        "celeba",
        "cifar10",
        "cifar100",
        "fashion_mnist",
        "imagenet",
        "mnist",
        "mvtec",
        "svhn",
        "tiny_imagenet",
    }
    assert set(farout.data.names()) >= downloaded | {"noise", "toy"}


def test_outlier_splits() -> None:
    assert farout.data.outlier_splits("toy") == ["test/ood_cls", "test/ood_pair", "test/ood_empty"]
    assert farout.data.outlier_splits("cifar10") == []
    with pytest.raises(ValueError, match="Did you mean 'toy'"):
        farout.data.outlier_splits("toys")


@pytest.mark.parametrize(
    ("name", "split", "message"),
    [
        ("cifar", "test", "Did you mean 'cifar100?'"),
        ("toy", "tset", "unknown split of 'toy': 'tset'. Did you mean 'test'"),
        ("noise", "train", "Known: test"),
        ("cifar10", "extra", "Known: test, train, train.val, val"),
        ("celeba", "valid", "Did you mean 'val'"),
    ],
)
def test_unknown_name_or_split(name: str, split: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        farout.data.load(name, split)


def test_unknown_option() -> None:
    with pytest.raises(ValueError, match="Did you mean 'side'"):
        farout.data.load("toy", sides=8)


@pytest.mark.parametrize("path", ["./nothing", "nothing.npz", "a/b", Path("nothing"), "~/no such folder/x"])
def test_missing_path(path: str | Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no file or folder .*expected an \.npz or \.npy file"):
        farout.data.load(path)


def test_file_of_unknown_kind(tmp_path: Path) -> None:
    path = write(tmp_path, {"x.txt": b"text"}) / "x.txt"
    with pytest.raises(ValueError, match="is a file of an unknown format"):
        farout.data.load(path)


@pytest.mark.parametrize("limit", [0, -3, 2.5, True])
def test_bad_limit(limit: int) -> None:
    with pytest.raises(ValueError, match="limit must be an integer of at least 1"):
        farout.data.load("toy", limit=limit)


def test_npz_by_split(tmp_path: Path) -> None:
    images = random_pixels(6, 5, 5, 3)
    path = tmp_path / "mine.npz"
    np.savez(path, train_images=images[:4], train_labels=[0, 1, 0, 1], test_images=images[4:])
    train, test = farout.data.load(path, "train"), farout.data.load(str(path))
    assert train.labels is not None
    assert train.labels.tolist() == [0, 1, 0, 1]
    assert test.labels is None
    np.testing.assert_array_equal(test.batch([1])[0].numpy() * 255, images[5].transpose(2, 0, 1))
    with pytest.raises(ValueError, match=r"has the arrays .*expected 'images'"):
        farout.data.load(path, "val")
    with pytest.raises(TypeError, match=r"an \.npz file takes no options, got side"):
        farout.data.load(path, side=3)


def test_folder_by_split(tmp_path: Path) -> None:
    write(tmp_path, {"train/a/1.png": png(1), "train/b/1.png": png(2), "test/a/1.png": png(3)})
    assert farout.data.load(tmp_path, "train").classes == ("a", "b")
    test = farout.data.load(tmp_path)
    assert (len(test), test.name) == (1, tmp_path.name)
    assert test.batch([0]).unique().tolist() == pytest.approx([3 / 255])
    with pytest.raises(ValueError, match="Known: test, train"):
        farout.data.load(tmp_path, "val")
    with pytest.raises(ValueError, match=r"unknown option for a folder: 'sides'\. Did you mean 'side'"):
        farout.data.load(tmp_path, sides=8)


def test_a_class_called_train_is_no_split(tmp_path: Path) -> None:
    write(tmp_path / "photos", {"car/1.png": png(1), "train/1.png": png(2), "bus/1.png": png(3)})
    assert farout.data.load(tmp_path / "photos").classes == ("bus", "car", "train")


def test_limit_of_a_mixed_set_is_its_beginning() -> None:
    whole = farout.data.load("toy")
    part = farout.data.load("toy", limit=10)
    assert len(part) == 10
    np.testing.assert_array_equal(part.batch(range(10)), whole.batch(range(10)))
    assert len(farout.data.load("toy", limit=5000)) == 1000


def test_limit_of_a_folder_keeps_all_classes_and_reads_only_what_it_keeps(tmp_path: Path) -> None:
    write(tmp_path, {f"{name}/{i}.png": png(i) for name in "abc" for i in range(5)})
    (tmp_path / "c" / "4.png").write_bytes(b"damaged, but not asked for")
    part = farout.data.load(tmp_path, limit=6)
    assert part.labels is not None
    assert part.labels.tolist() == [0, 0, 1, 1, 2, 2]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.data())
def test_first_spreads_over_sorted_classes(counts: list[int], data: st.DataObject) -> None:
    labels = np.repeat(np.arange(len(counts)), counts)
    n = data.draw(st.integers(1, len(labels)))
    chosen = first_indices(ImageSet.from_arrays(np.zeros((len(labels), 1, 1), np.uint8), labels), n)
    assert len(chosen) == n
    assert (np.diff(chosen) > 0).all()
    kept = np.bincount(labels[chosen], minlength=len(counts))
    short = kept < counts
    assert kept[short].size == 0 or kept.max() - kept[short].min() <= 1


def test_plugin_sets_are_found_by_name() -> None:
    maker = farout.data.DATASETS["toy"]
    farout.data.DATASETS.register("mine of this test")(maker)
    assert len(farout.data.load("mine of this test", "val")) == 500


@pytest.mark.skipif(not SHARED.is_dir(), reason="real data not at hand")
def test_real_cifar10() -> None:
    images = farout.data.load(SHARED / "cifar10_test.npz")
    assert images.shape == (3, 32, 32)
    assert images.labels is not None
    assert np.bincount(images.labels).tolist() == [1000] * 10
    assert (images.batch([0])[0, :, 0, 0] * 255).tolist() == pytest.approx([158, 112, 49])


def test_folder_with_a_single_npz_file_is_that_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "near_ood.npz", images=random_pixels(3, 4, 4, 1))
    (tmp_path / "near_ood.json").write_text("{}")
    (tmp_path / ".trained").mkdir()
    assert len(farout.data.load(tmp_path)) == 3
    np.savez(tmp_path / "shifted.npz", images=random_pixels(2, 4, 4, 1))
    with pytest.raises(ValueError, match="has no images"):
        farout.data.load(tmp_path)
