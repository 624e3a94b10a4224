"""The test sets of ImageNet: folders put by hand, labels in the order of ImageNet, and what is said where they lack."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import farout.data
from farout.data.class_names import class_indices, read_class_names
from farout.data.imagenet_sets import SOURCES
from helpers.originals import png, write

SYNSETS = ("n01440764", "n01443537", "n01484850", "n01491361")
SUBSET = (SYNSETS[1], SYNSETS[3])


def shades(images: farout.data.ImageSet) -> list[int]:
    """The gray value of every image."""
    return [round(255 * float(value)) for value in images.batch(np.arange(len(images)))[:, 0, 0, 0]]


@pytest.fixture
def imagenet(tmp_path: Path) -> Path:
    """ImageNet of four synsets; the gray value of an image is ten times its class, and its number."""
    files = {f"train/{s}/{k}.JPEG": png(10 * c + k) for c, s in enumerate(SYNSETS) for k in range(10)}
    return write(tmp_path / "imagenet", files | {f"val/{s}/0.JPEG": png(10 * c + 5) for c, s in enumerate(SYNSETS)})


@pytest.mark.parametrize("name", ["imagenet_a", "imagenet_o", "imagenet_r", "imagenet_sketch"])
def test_a_folder_per_synset(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write(tmp_path / name, {f"{s}/x.JPEG": png(c) for c, s in enumerate(SUBSET)} | {"README.txt": b"about"})
    images = farout.data.load(name, root=root, side=4)
    assert (images.name, images.classes, shades(images)) == (name, SUBSET, [0, 1])
    assert images.labels is not None
    assert images.labels.tolist() == [0, 1]
    monkeypatch.setenv("FAROUT_DATA", str(tmp_path))  # without root=, it lies in the cache folder by its name
    assert farout.data.load(name, side=4).fingerprint == images.fingerprint


def test_folders_of_v2_are_numbers(tmp_path: Path) -> None:
    """Sorted as text, 10 would come before 2."""
    root = write(tmp_path, {f"{number}/x.jpeg": png(number % 256) for number in (0, 2, 10, 999)})
    images = farout.data.load("imagenet_v2", root=root, side=4)
    assert images.labels is not None
    assert images.labels.tolist() == [0, 2, 10, 999]
    assert shades(images) == [0, 2, 10, 999 % 256]
    assert len(images.classes) == 1000
    with pytest.raises(ValueError, match="has folders such as 'n01440764', expected numbers from 0 to 999"):
        farout.data.load("imagenet_v2", root=write(tmp_path / "other", {f"{s}/x.jpeg": png(1) for s in SYNSETS}))


def test_corruptions_and_severities_are_folders(tmp_path: Path) -> None:
    files = {
        f"{kind}/{s}/{SYNSETS[0]}/x.JPEG": png(10 * s + k) for k, kind in enumerate(("fog", "snow")) for s in (3, 5)
    }
    root = write(tmp_path, files | {"notes/x.txt": b""})
    images = farout.data.load("imagenet_c", root=root, corruption="snow", severity=3, side=4)
    assert (images.name, shades(images)) == ("imagenet_c/snow/3", [31])
    assert shades(farout.data.load("imagenet_c", root=root, corruption="fog", side=4)) == [50]
    with pytest.raises(ValueError, match=r"unknown corruption= of imagenet_c .*Known: fog, snow"):
        farout.data.load("imagenet_c", root=root)
    with pytest.raises(ValueError, match="severity must be from 1 to 5, got 6"):
        farout.data.load("imagenet_c", root=root, corruption="fog", severity=6)


def test_classes_of_another_set(imagenet: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "imagenet-r", {f"{s}/x.JPEG": png(1) for s in SUBSET})
    images = farout.data.load("imagenet_200", root=imagenet, classes_of=other, side=4)
    assert (images.name, images.classes, shades(images)) == ("imagenet_200", SUBSET, [15, 35])
    assert images.labels is not None
    assert images.labels.tolist() == [0, 1]
    listed = write(tmp_path / "lists", {"synsets.txt": f"{SUBSET[1]} shark\n\n{SUBSET[0]} goldfish\n".encode()})
    again = farout.data.load("imagenet_200", root=imagenet, classes_of=listed / "synsets.txt", side=4)
    assert again.fingerprint == images.fingerprint


@pytest.mark.parametrize(("split", "count"), [("train", 18), ("val", 2), ("train+val", 20)])
def test_splits_are_those_of_imagenet(imagenet: Path, tmp_path: Path, split: str, count: int) -> None:
    other = write(tmp_path / "r", {f"{s}/x.JPEG": png(1) for s in SUBSET})
    part = farout.data.load("imagenet_200", split, root=imagenet, classes_of=other, side=4)
    whole = farout.data.load("imagenet", split, root=imagenet, side=4)
    assert whole.labels is not None
    assert shades(part) == [shades(whole)[i] for i in np.flatnonzero(np.isin(whole.labels, (1, 3)))]
    assert len(part) == count


def test_a_class_that_imagenet_lacks(imagenet: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "r", {f"{s}/x.JPEG": png(1) for s in (*SUBSET, "n09999999")})
    with pytest.raises(ValueError, match=r"1 of 3 classes are not in imagenet's folders .*such as 'n09999999'"):
        farout.data.load("imagenet_200", root=imagenet, classes_of=other)
    with pytest.raises(FileNotFoundError, match="Give classes_of=, a copy of ImageNet-R, -A or -O"):
        farout.data.load("imagenet_200", root=imagenet)


@pytest.mark.parametrize("name", SOURCES)
def test_a_set_that_is_not_there_says_where_to_put_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAROUT_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError) as caught:
        farout.data.load(name)
    assert f"no folder {tmp_path / name}" in str(caught.value)
    assert SOURCES[name] in str(caught.value)
    with pytest.raises(ValueError, match=f"unknown split of '{name}': 'train'.*Known: test"):
        farout.data.load(name, "train", root=tmp_path)


def test_images_without_class_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds images; expected one folder per class"):
        farout.data.load("imagenet_a", root=write(tmp_path, {"x.JPEG": png(1)}))


def test_names_of_classes(tmp_path: Path) -> None:
    file = tmp_path / "names.txt"
    file.write_text("b beta\n\na alpha\n", encoding="utf-8")
    assert read_class_names(file) == ("b", "a")
    assert class_indices(("b", "a", "c"), ("a", "b"), "there") == (1, 0)
    file.write_text("a\na\n", encoding="utf-8")
    with pytest.raises(ValueError, match="names a class twice"):
        read_class_names(file)
    file.write_text("a\n", encoding="utf-8")
    with pytest.raises(ValueError, match="names 1 classes, expected at least 2"):
        read_class_names(file)
    with pytest.raises(FileNotFoundError, match="expected one sub-folder, or one line, per class"):
        read_class_names(tmp_path / "none")
