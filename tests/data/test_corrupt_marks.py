"""Shifted sets whose classes have outliers of their own, as MVTec AD: the mark stays, and they are not shifted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import farout
from farout.core import ImageSet
from farout.data.arrays import ArraySet, as_bytes
from farout.data.folder import FolderSet
from farout.data.shifted import Shifted
from farout.data.writing.realistic import write

COUNT = 30
CLASSES = ("bottle", "cable", "zipper")
DEFECTIVE = np.arange(COUNT) % 4 == 1
SHIFTS = [farout.shift("gaussian_noise", severity=2), farout.shift("gaussian_noise", severity=5), farout.shift("flip")]


def pictures(outlier: Any = DEFECTIVE) -> ImageSet:
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (COUNT, 16, 16, 3), np.uint8), rng.integers(0, 3, COUNT)
    return ArraySet(images, labels, name="parts", classes=CLASSES, attributes={"outlier": outlier})


def expected(place: int) -> np.ndarray:
    """The good images under a shift, each drawn by its place in the whole set."""
    images = Shifted(pictures(), SHIFTS[place], 7)
    return as_bytes(images.batch(np.flatnonzero(~DEFECTIVE)))


def test_arrays_hold_defective_images_as_they_are_and_only_good_ones_under_shifts(tmp_path: Path) -> None:
    images, good = pictures(), np.flatnonzero(~DEFECTIVE)
    facts = write(images, tmp_path / "r", SHIFTS, clean=True, seed=7)
    assert {name: entry["images"] for name, entry in facts["shifts"].items()} == {
        "clean": COUNT,
        "gaussian_noise": 2 * len(good),
        "flip": len(good),
    }
    clean = farout.load(tmp_path / "r" / "clean.npz")
    assert clean.attributes["outlier"].tolist() == DEFECTIVE.tolist()
    assert torch.equal(clean.batch(range(COUNT)), images.batch(range(COUNT)))
    for name, split, place in (("gaussian_noise", "2", 0), ("gaussian_noise", "5", 1), ("flip", "test", 2)):
        shifted = farout.load(tmp_path / "r" / f"{name}.npz", split)
        assert shifted.labels.tolist() == images.labels[good].tolist()  # type: ignore[index, union-attr]
        assert shifted.attributes["outlier"].tolist() == [0] * len(good)
        assert np.array_equal(as_bytes(shifted.batch(range(len(good)))), expected(place))


def test_files_keep_the_mark_beside_them(tmp_path: Path) -> None:
    images, good = pictures(), np.flatnonzero(~DEFECTIVE)
    assert images.labels is not None
    write(images, tmp_path / "r", SHIFTS, clean=True, form="png", seed=7)
    clean, order = farout.load(tmp_path / "r" / "clean"), np.argsort(images.labels, kind="stable")
    assert clean.classes == CLASSES
    assert clean.attributes["outlier"].tolist() == DEFECTIVE[order].tolist()
    assert clean.subset([3, 1]).attributes["outlier"].tolist() == DEFECTIVE[order][[3, 1]].tolist()
    of_good = np.argsort(images.labels[good], kind="stable")
    for folder, place in (("gaussian_noise/2", 0), ("gaussian_noise/5", 1), ("flip", 2)):
        shifted = farout.load(tmp_path / "r" / folder)
        assert np.array_equal(as_bytes(shifted.batch(range(len(good)))), expected(place)[of_good])


@pytest.mark.parametrize("form", ["npz", "png"])
def test_the_same_call_again_changes_nothing_and_other_marks_are_another_set(tmp_path: Path, form: Any) -> None:
    write(pictures(), tmp_path / "r", SHIFTS, clean=True, form=form)
    before = {path: path.read_bytes() for path in (tmp_path / "r").rglob("*") if path.is_file()}
    write(pictures(), tmp_path / "r", SHIFTS, clean=True, form=form)
    assert {path: path.read_bytes() for path in (tmp_path / "r").rglob("*") if path.is_file()} == before
    with pytest.raises(ValueError, match="holds another set: fingerprint is"):
        write(pictures(~DEFECTIVE), tmp_path / "r", SHIFTS, clean=True, form=form)


def test_marks_are_part_of_what_a_folder_is(tmp_path: Path) -> None:
    write(pictures(), tmp_path / "r", [], clean=True, form="png")
    folder = tmp_path / "r" / "clean"
    first = FolderSet(folder)
    lines = (folder / "outliers.txt").read_text().splitlines()
    (folder / "outliers.txt").write_text("\n".join(lines[1:]))
    assert FolderSet(folder).attributes["outlier"].sum() == DEFECTIVE.sum() - 1
    assert FolderSet(folder).fingerprint != first.fingerprint
    (folder / "outliers.txt").write_text("bottle/none.png\n")
    with pytest.raises(ValueError, match=r"outliers\.txt names 1 images that are not in .*'bottle/none\.png'"):
        FolderSet(folder)


def test_what_cannot_keep_marks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.npy files cannot mark; write it as npz, png or jpeg"):
        write(pictures(), tmp_path / "r", SHIFTS, form="npy")
    with pytest.raises(ValueError, match="all images of parts are outliers to their own class"):
        write(pictures(np.ones(COUNT, np.int64)), tmp_path / "r", SHIFTS, clean=True)
    assert not (tmp_path / "r").exists()
